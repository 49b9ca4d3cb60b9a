"""Rules of the contract: how many gradients backward returns, and their shapes."""

from __future__ import annotations

import re

import torch

from autograd_course.doctor.comparing.mismatch import mismatches, return_line
from autograd_course.doctor.evidence import Evidence, Raw
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import (
    backward_failure,
    raw_transpose,
    shape,
)
from autograd_course.doctor.words import plural, quoted


@rule(
    "wrong-arity",
    "contract",
    "error",
    "backward returns the wrong number of gradients",
    hint="Return one value for each argument of `forward` after `ctx`, in the same order: "
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
                "`backward` returns a list, which autograd takes for a single gradient.",
                {"returned": 1, "expected": arguments},
                hint="Return the gradients as a tuple: `return grad_x, grad_y`.",
            )
        names = ", ".join(quoted(evidence.parameters))
        return Seen(
            f"`backward` returns {plural(raw.count, 'gradient')}, but `forward` takes "
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
        f"the `backward` of an inner Function returns {plural(int(found[2]), 'gradient')}, but "
        f"autograd expects {found[1]}.",
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
        return (
            f"`backward` returns a gradient for `{name}`, which is not a tensor. It must return "
            "None for this argument."
        )
    later = zip(evidence.omitted, raw.kinds[len(evidence.inputs) :], strict=False)
    for name, kind in later:
        if kind != "NoneType":
            return (
                f"`backward` returns a gradient for `{name}`, which this call does not pass. It "
                "must return None for this argument."
            )
    return ""


@rule(
    "gradient-shape",
    "contract",
    "error",
    "a gradient does not have the shape of its input",
    hint="Return each gradient in exactly the shape of its input: follow the shapes through the "
    "formula, and sum over every dim that `forward` broadcast or expanded.",
    lesson="03_gradient_patterns",
    after=("wrong-arity",),
)
def gradient_shape(evidence: Evidence) -> Seen | None:
    for position, want, got in _raw_shapes(evidence):
        name = evidence.name(position)
        if got != want and not _sums_to(got, want) and not raw_transpose(evidence, position):
            return Seen(
                f"`backward` returns a gradient of shape {shape(got)} for `{name}`, which has "
                f"shape {shape(want)}.",
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
            f"the `backward` of an inner Function returns a gradient of shape {found[1]} for an "
            f"input of shape {found[2]}."
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
    """Whether autograd would silently sum a gradient down to the input's shape."""
    if len(got) < len(want):
        return False
    trailing = got[len(got) - len(want) :]
    return all(size in (have, 1) for have, size in zip(trailing, want, strict=True))


@rule(
    "unreduced-broadcast",
    "contract",
    "error",
    "a gradient is larger than its input",
    hint="Sum the gradient over the dims that `forward` broadcast, and keep dims of size 1: "
    "`grad.sum_to_size(x.shape)`.",
    lesson="03_gradient_patterns",
)
def unreduced_broadcast(evidence: Evidence) -> Seen | None:
    for position, want, got in _raw_shapes(evidence):
        name = evidence.name(position)
        if got != want and _sums_to(got, want):
            right = not any(m.name == name for m in mismatches(evidence))
            larger = got.numel() > want.numel()
            memory = "the larger gradient needs more memory, and " if larger else ""
            mended = (
                f"the sum is right. But {memory}code that calls `backward` directly gets the wrong "
                "shape"
                if right
                else "the sum is wrong"
            )
            return Seen(
                f"`backward` returns a gradient of shape {shape(got)} for `{name}`, which has "
                f"shape {shape(want)}. Autograd silently sums it to that shape, and {mended}.",
                {"input": name, "expected": list(want), "actual": list(got)},
                "warning" if right else "error",
            )
    return None
