"""Words and small facts that several rules share."""

from __future__ import annotations

from typing import Any

import torch

from autograd_course.doctor.comparing.closeness import within
from autograd_course.doctor.evidence import Evidence, Failure
from autograd_course.doctor.shown import shown
from autograd_course.doctor.words import nth


def ordinal(pull: str) -> str:
    """Return which output a pull named ``only k`` uses, in words."""
    return nth(int(pull.removeprefix("only ")))


def shape(sizes: torch.Size) -> str:
    return str(tuple(sizes))


def raised(failure: Failure) -> dict[str, str]:
    return {"exception": failure.kind, "text": failure.text, "line": failure.line}


def what_was_raised(failure: Failure) -> str:
    if failure.kind == "SystemExit":
        return "calls exit()"
    said = f": {failure.text}" if failure.text else " without a message"
    return f"raises {failure.kind}{said}"


def call(evidence: Evidence) -> str:
    """Return the arguments of the call in short: ``x float64[3, 4], ceiling 6.0``."""
    return ", ".join(
        f"{name} {describe(value)}"
        for name, value in zip(evidence.parameters, evidence.inputs, strict=True)
    )


def describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return shown(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def backward_failure(evidence: Evidence) -> Failure | None:
    """Return how backward failed, in the direct call or else through autograd.

    What fails when only some outputs are used is for another rule, which says so. A solver with an
    absolute tolerance may refuse a cotangent that is thousands of times as large as usual. What
    runs in the dtypes of the caller's inputs is not held against the Function.
    """
    usual = (
        pull.failure
        for name, pull in evidence.pulls.items()
        if name != "far" and not name.startswith("only")
    )
    failures = (evidence.raw and evidence.raw.failure, *usual)
    return next((f for f in failures if f and not f.runs_in_own_dtype), None)


def raw_transpose(evidence: Evidence, position: int) -> bool:
    """Whether a raw gradient of the wrong shape is the truth with its last two dims swapped."""
    if evidence.raw is None or position not in evidence.wanted or "random" not in evidence.expected:
        return False
    grad = evidence.raw.grads[position] if position < len(evidence.raw.grads) else None
    truth = evidence.expected["random"][evidence.wanted.index(position)]
    if grad is None or grad.dim() < 2 or grad.shape == truth.value.shape:
        return False
    turned = grad.mT.to(truth.value.dtype)
    if turned.shape != truth.value.shape:
        return False
    known = ~torch.isnan(truth.value)
    return bool(known.any()) and bool(within(turned, truth)[known].all())
