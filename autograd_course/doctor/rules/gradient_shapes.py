"""Rules of the contract: how many gradients backward returns, and their shapes."""

from __future__ import annotations

import re

import torch

from autograd_course.doctor.comparing.mismatch import mismatches, return_line
from autograd_course.doctor.evidence import Evidence, Raw
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import (
    backward_failure,
    plural,
    raw_transpose,
    shape,
)


@rule(
    "wrong-arity",
    "contract",
    "error",
    "backward returns the wrong number of gradients",
    hint="backward returns one value for each argument of forward after ctx, in the same order: "
    "a gradient for a tensor, None for everything else.",
    lesson="01_template",
)
def wrong_arity(evidence: Evidence) -> Seen | None:
    raw, arguments = evidence.raw, len(evidence.inputs)
    if raw and not raw.failure:
        if unasked := _unasked(evidence, raw):
            return Seen(unasked, {"line": return_line(evidence.backward_source)})
        extra = [kind for kind in raw.kinds[arguments:] if kind != "NoneType"]
        if raw.count >= arguments and not extra:
            return None
        if raw.kinds == ("list",):
            return Seen(
                "backward returned a list, which the engine takes for a single gradient.",
                {"returned": 1, "expected": arguments},
                hint="Return the gradients as a tuple: return grad_x, grad_y.",
            )
        names = ", ".join(evidence.parameters)
        return Seen(
            f"backward returned {plural(raw.count, 'gradient')}; forward takes "
            f"{plural(arguments, 'argument')} ({names}).",
            {
                "returned": raw.count,
                "expected": arguments,
                "line": return_line(evidence.backward_source),
            },
        )
    failure = backward_failure(evidence)
    found = failure and re.search(
        r"number of gradients \(expected (\d+), got (\d+)\)", failure.text
    )
    if not found:
        return None
    return Seen(
        f"a backward returned {plural(int(found[2]), 'gradient')} where {found[1]} were needed.",
        {"returned": int(found[2]), "expected": int(found[1])},
    )


def _unasked(evidence: Evidence, raw: Raw) -> str:
    """Say for which argument backward returned a gradient though it can have none."""
    given = zip(evidence.parameters, evidence.inputs, raw.kinds, strict=False)
    numbers = [
        name
        for name, value, kind in given
        if not isinstance(value, torch.Tensor) and kind != "NoneType"
    ]
    if numbers:
        name = numbers[0]
        return f"backward returned a gradient for {name}, which is no tensor: None belongs there."
    later = zip(evidence.omitted, raw.kinds[len(evidence.inputs) :], strict=False)
    for name, kind in later:
        if kind != "NoneType":
            return (
                f"backward returned a gradient for {name}, which this call left out: None belongs "
                "in its place then."
            )
    return ""


@rule(
    "gradient-shape",
    "contract",
    "error",
    "a gradient's shape does not fit its input",
    hint="Each gradient has exactly the shape of its input: follow the shapes of the formula, "
    "and sum over what forward broadcast or expanded.",
    lesson="03_gradient_patterns",
    after=("wrong-arity",),
)
def gradient_shape(evidence: Evidence) -> Seen | None:
    for position, want, got in _raw_shapes(evidence):
        name = evidence.name(position)
        if got != want and not _sums_to(got, want) and not raw_transpose(evidence, position):
            return Seen(
                f"backward returned a gradient of shape {shape(got)} for {name}, which has shape "
                f"{shape(want)}.",
                {
                    "input": name,
                    "expected": list(want),
                    "actual": list(got),
                    "line": return_line(evidence.backward_source),
                },
            )
    failure = backward_failure(evidence)
    found = failure and re.search(
        r"got (\[.*?\]) but expected shape compatible with (\[.*?\])", failure.text
    )
    if found and not (evidence.raw and evidence.raw.grads):
        return Seen(
            f"a backward returned a gradient of shape {found[1]} for an input of shape {found[2]}."
        )
    return None


def _raw_shapes(evidence: Evidence) -> list[tuple[int, torch.Size, torch.Size]]:
    if evidence.raw is None:
        return []
    return [
        (i, evidence.inputs[i].shape, grad.shape)
        for i, grad in enumerate(evidence.raw.grads[: len(evidence.inputs)])
        if grad is not None and i in evidence.wanted
    ]


def _sums_to(got: torch.Size, want: torch.Size) -> bool:
    """Whether the engine would sum a gradient down to the input's shape without a word."""
    if len(got) < len(want):
        return False
    trailing = got[len(got) - len(want) :]
    return all(size in (have, 1) for have, size in zip(trailing, want, strict=True))


@rule(
    "unreduced-broadcast",
    "contract",
    "error",
    "a gradient is larger than its input",
    hint="Sum the gradient over the axes that forward broadcast, keeping axes of length 1 "
    "(grad.sum_to_size(x.shape)).",
    lesson="03_gradient_patterns",
)
def unreduced_broadcast(evidence: Evidence) -> Seen | None:
    for position, want, got in _raw_shapes(evidence):
        name = evidence.name(position)
        if got != want and _sums_to(got, want):
            right = not any(m.name == name for m in mismatches(evidence))
            larger = got.numel() > want.numel()
            until = "until then it takes the memory of the larger shape, and " if larger else ""
            mended = (
                f"the engine sums it silently, and the sum is right; {until}who calls this "
                "backward directly gets another shape"
                if right
                else "the engine sums it silently, and the sum is wrong"
            )
            return Seen(
                f"backward returned a gradient of shape {shape(got)} for {name}, which has shape "
                f"{shape(want)}: {mended}.",
                {"input": name, "expected": list(want), "actual": list(got)},
                "warning" if right else "error",
            )
    return None
