"""Rules of range: what becomes of large numbers, and of masks of -inf."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.doctor.comparing.numbers import element, number, plain, unraveled
from autograd_course.doctor.evidence import Evidence, Extreme
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.truth.rounding import Values, representable


@rule(
    "overflow",
    "layout",
    "error",
    "a result is inf or nan where the true result is finite",
    hint="Find the intermediate result that overflows (an exponential, a power, a product) or is "
    "undefined (inf - inf, 0 · inf). Before that operation, subtract the "
    "maximum, factor out the largest term, or mask the input.",
    lesson="08_debugging_clinic",
    after=("contract", "linearity", "values", "layout"),
)
def overflow(evidence: Evidence) -> Seen | None:
    return next(filter(None, (_lost(evidence, call) for call in evidence.extremes)), None)


def _lost(evidence: Evidence, call: Extreme) -> Seen | None:
    """Say which result of one call is no number though it should be."""
    if call.masked is not None:
        for k, lost in _lost_to_a_mask(evidence, call):
            return _told(evidence, call, k, lost, call.double, call.right)
    elif representable(call.double):
        for k, lost in _lost_to_float32(call):
            return _told(evidence, call, k, lost, call.single, call.double)
    return None


def _lost_to_float32(call: Extreme) -> Iterator[tuple[int, Tensor]]:
    """Yield which tensors are not finite in float32, and where."""
    for k, value in enumerate(call.single):
        if value is not None and not bool(torch.isfinite(value).all()):
            yield k, ~torch.isfinite(value)


def _lost_to_a_mask(evidence: Evidence, call: Extreme) -> Iterator[tuple[int, Tensor]]:
    """Yield which tensors are nan, and where, although the reference's are not.

    Its gradients must be finite: one of inf trains nothing, and need not be met.
    """
    outputs = len(call.double) - len(evidence.wanted)
    for k, (mine, right) in enumerate(zip(call.double, call.right, strict=False)):
        if mine is None or right is None:
            continue
        lost = mine.isnan() & (right.isfinite() if k >= outputs else ~right.isnan())
        if bool(lost.any()):
            yield k, lost


def _told(
    evidence: Evidence, call: Extreme, k: int, lost: Tensor, values: Values, truth: Values
) -> Seen:
    """Report the lost element whose true value is largest."""
    right = truth[k]
    assert right is not None
    largest = torch.where(lost, right.abs(), -1.0)
    index = unraveled(int(largest.argmax()), largest.shape)
    mine = values[k]
    assert mine is not None
    came, should = at(mine, index), at(right, index)
    dtype = " in float32" if call.single else ""
    return Seen(
        f"{call.names[k]} is {came}{dtype} {call.how}; it should be {should}.",
        {"witness": f"{place(evidence, call, k, index)}: {came}, should be {should}"},
    )


def place(evidence: Evidence, call: Extreme, k: int, index: tuple[int, ...]) -> str:
    """Write an element of a result: by the input at the same index, if there is one."""
    value = call.double[k]
    for position in evidence.wanted:
        given: Tensor = call.inputs[position]
        if value is not None and given.shape == value.shape:
            return f"{element(evidence.name(position), index)} = {at(given, index)}"
    return element(call.names[k].removeprefix("the "), index)


def at(tensor: Tensor, index: tuple[int, ...]) -> str:
    """Write an element's value."""
    return number(plain(tensor[index]))
