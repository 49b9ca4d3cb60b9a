"""Rules about overflow and loss of precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import SLACK, size
from autograd_doctor._numerics.mismatch import return_line
from autograd_doctor._numerics.rounding import EXCESSIVE, Values, excess, representable
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._rules.rule import Match, rule
from autograd_doctor.evidence import RANDOM, Evidence, Extreme, Float32Steps
from autograd_doctor.formatting import element, number, plain, unraveled

# --------------------------------------------------------------------------------------------------
# Rules about large numbers and about -inf masks.
# --------------------------------------------------------------------------------------------------


@rule(
    "overflow",
    "layout",
    "error",
    "a result is inf or nan where the true result is finite",
    hint="Find the intermediate result that overflows (an exponential, a power, a product) or is "
    "undefined (inf - inf, 0 · inf). Before that operation, subtract the "
    "maximum, factor out the largest term, or mask the input.",
    lesson="04_debugging_clinic",
    after=("contract", "linearity", "values", "layout"),
)
def overflow(evidence: Evidence) -> Match | None:
    return next(filter(None, (_lost(evidence, call) for call in evidence.variants.extremes)), None)


def _lost(evidence: Evidence, call: Extreme) -> Match | None:
    """Report a result that is infinite or nan but should not be.

    A nan at -inf is only a warning if the example contains no -inf, because the caller may never
    pass a mask.
    """
    if call.masked is not None:
        for k, lost in _lost_to_a_mask(evidence, call):
            match = _describe_overflow(evidence, call, k, lost, call.double, call.right)
            return match if _holds_masks(evidence) else replace(match, severity="warning")
    elif representable(call.double):
        for k, lost in _lost_to_float32(call):
            return _describe_overflow(evidence, call, k, lost, call.single, call.double)
    return None


def _holds_masks(evidence: Evidence) -> bool:
    """Return whether an input of the example contains -inf."""
    floats = filter(is_float, evidence.inputs)
    return any(bool((value == -torch.inf).any()) for value in floats)


def _lost_to_float32(call: Extreme) -> Iterator[tuple[int, Tensor]]:
    """Find tensors with elements that are not finite in float32.

    Yield the position of each tensor and a mask of these elements.
    """
    for k, value in enumerate(call.single):
        if value is not None and not bool(torch.isfinite(value).all()):
            yield k, ~torch.isfinite(value)


def _lost_to_a_mask(evidence: Evidence, call: Extreme) -> Iterator[tuple[int, Tensor]]:
    """Find tensors with elements that are nan even though the reference is not nan.

    Yield the position of each tensor and a mask of these elements. Ignore elements of a gradient
    for which the reference gradient is not finite, because an infinite gradient is useless.
    """
    outputs = len(call.double) - len(evidence.wanted)
    if any(right is not None and bool(right.isnan().any()) for right in call.right[:outputs]):
        return  # the reference itself has nan outputs for this mask
    for k, (mine, right) in enumerate(zip(call.double, call.right, strict=False)):
        if mine is None or right is None:
            continue
        lost = mine.isnan() & (right.isfinite() if k >= outputs else ~right.isnan())
        if bool(lost.any()):
            yield k, lost


def _describe_overflow(
    evidence: Evidence, call: Extreme, k: int, lost: Tensor, values: Values, truth: Values
) -> Match:
    """Report the non-finite element with the largest correct value."""
    right = truth[k]
    assert right is not None
    largest = torch.where(lost, right.abs(), -1.0)
    index = unraveled(int(largest.argmax()), largest.shape)
    mine = values[k]
    assert mine is not None
    actual, expected = at(mine, index), at(right, index)
    dtype = " in float32" if call.single else ""
    spot = place(evidence, call, k, index)
    seen = {"witness": f"{spot}: {actual}, should be {expected}"}
    if call.line:
        seen["line"] = call.line
    masked = call.masked is not None
    what, avoid = ("nan", REPLACE) if masked else ("number that is not finite", SHRINK)
    known = call.computes not in ("", "nan")  # "nan": a saved tensor already contains nan
    why = f", because it computes {call.computes}" if known else ""
    if call.computes.startswith(INVERSES):
        avoid = ROUNDED
    return Match(
        f"{call.names[k]} is {actual}{dtype} {call.how}; {_at(spot, call)}it should be {expected}.",
        seen,
        hint=f"This line gets the first {what}{why}. {avoid}" if call.line else "",
    )


def _at(spot: str, call: Extreme) -> str:
    """Return ``"at x[0] = 2, "`` if the inputs reach a larger number than this element has."""
    given = spot.partition(" = ")[2].removeprefix("-")
    is_smaller = call.how.startswith("once") and given and not call.how.endswith(given)
    return f"at {spot}, " if is_smaller else ""


INVERSES = ("logit(", "atanh(", "erfinv(")
ROUNDED = (
    "The operand is rounded, so the number that it was computed from is lost. Save this number "
    "itself."
)
SHRINK = (
    "Before the operation, subtract the maximum, factor out the largest term, or mask the input."
)
REPLACE = (
    "Before the operation, replace the operand there, for example with `torch.where` or "
    "`masked_fill`."
)


def place(evidence: Evidence, call: Extreme, k: int, index: tuple[int, ...]) -> str:
    """Describe an element of a result.

    If an input has the same shape, show this input's value at the index. Otherwise, show the name
    of the result and the index.
    """
    value = call.double[k]
    for position in evidence.wanted:
        given: Tensor = call.inputs[position]
        if value is not None and given.shape == value.shape:
            return f"{element(evidence.name(position), index)} = {at(given, index)}"
    return element(call.names[k].removeprefix("the "), index)


def at(tensor: Tensor, index: tuple[int, ...]) -> str:
    """Format the value of one element."""
    return number(plain(tensor[index]))


@rule(
    "inexact-forward",
    "layout",
    "info",
    "a solver stops when its result is close enough",
    hint="Pass a smaller tolerance to the solver for this check, and see whether the difference "
    "shrinks with it. In tests, allow for the tolerance.",
    lesson="01_template",
    after=("contract", "linearity", "values"),
)
def inexact_forward(evidence: Evidence) -> Match | None:
    off = evidence.values.inexact
    if not off:
        return None
    return Match(
        f"the gradient differs from the slope of `forward` by {100 * off:.1g} %. The code stops as "
        "soon as a result is close enough, and that can explain the difference.",
        {"relative": off},
    )


# --------------------------------------------------------------------------------------------------
# Rules about precision: a formula or a cast loses more digits than rounding explains.
# --------------------------------------------------------------------------------------------------

# relative to the magnitude; the long step is ten times larger, and rounding is much smaller
MOVING = 1e-5
# relative to the magnitude; a thousand times the long step, as after a sign change
JUMPING = 0.1
OTHERWISE = 0.5  # relative to the change of a linear function


@rule(
    "precision",
    "layout",
    "warning",
    "a result is far less precise than its dtype allows",
    hint="Look for a difference of nearly equal numbers, or for a small number added to a large "
    "one. Use a formula that computes the small quantity directly, such as `torch.expm1(x)` "
    "instead of `exp(x) - 1`.",
    lesson="04_debugging_clinic",
    after=("contract", "linearity", "values", "layout"),
)
def precision(evidence: Evidence) -> Match | None:
    if evidence.values.inexact:  # a solver that stops early is inexact, but it does not lose digits
        return None
    return _cast(evidence) or _stairs(evidence) or _cancellation(evidence)


def _cast(evidence: Evidence) -> Match | None:
    """Report a gradient that has only 16-bit precision even though the cotangent is in float64."""
    vjp = evidence.values.vjps.get(RANDOM)
    if evidence.values.cotangent_range:  # the cotangents may have only a few digits
        return None
    if vjp is None or any(g is not None and g.dtype != torch.float64 for g in vjp.grad_outputs):
        return None
    for position, grad in zip(evidence.wanted, vjp.grads, strict=False):
        for dtype in (torch.bfloat16, torch.float16):
            if grad is not None and _held(grad, dtype):
                name = evidence.name(position)
                return Match(
                    f"`backward` computes the gradient of `{name}` in "
                    f"{str(dtype).removeprefix('torch.')}, regardless of the dtype of `{name}`.",
                    {"input": name, "line": return_line(evidence.contract.backward_source)},
                    hint="Look for a cast in `backward`, or for a tensor that it creates in a "
                    "fixed dtype, and use the dtype of `grad_output` instead.",
                )
    return None


def _held(grad: Tensor, dtype: torch.dtype) -> bool:
    """Return whether a dtype can represent every element of a nonzero gradient exactly."""
    return size(grad) > SLACK and torch.equal(grad, grad.to(dtype).to(grad.dtype))


def _stairs(evidence: Evidence) -> Match | None:
    """Report a float64 result that stays constant or jumps when all inputs change slightly.

    If the user declares a surrogate gradient, do not check the outputs, because a step function is
    constant between its levels.
    """
    found = evidence.variants.float32_steps
    if found is None:
        return None
    outputs = len(found.here) - len(evidence.wanted)
    for k in range(outputs if evidence.values.surrogate else 0, len(found.here)):
        told = None if _is_short(evidence, k - outputs) else _uneven(found, k)
        if told is not None:
            return Match(
                f"{found.names[k]} is less precise than float64: it changes in steps, as a float32 "
                "result or the result of a loop with a tolerance does.",
                {"witness": told},
                hint="Find the line that casts to float32, for example `.float()` or a NumPy "
                "operation, or the tolerance at which a loop stops. To use float32 for 16-bit "
                "inputs and float64 for float64 inputs, cast to `torch.promote_types(x.dtype, "
                "torch.float32)`. If you can compute only in float32, pass `reference=f`, where "
                "`f` computes the same in float64 with PyTorch operations: finite differences of a "
                "float32 `forward` cannot show small errors of `backward`.",
            )
    return None


def _is_short(evidence: Evidence, slot: int) -> bool:
    """Return whether ``backward`` returns a gradient that is not in float64.

    A different rule reports this gradient.
    """
    grads = evidence.contract.direct.grads if evidence.contract.direct else ()
    position = evidence.wanted[slot] if slot >= 0 else len(grads)
    grad = grads[position] if position < len(grads) else None
    return grad is not None and grad.dtype != torch.float64


def _uneven(found: Float32Steps, k: int) -> str | None:
    """Describe an element that changes irregularly over a short step.

    The change should be proportional to the change over a long step. Return ``None`` unless most
    elements change irregularly. Ignore elements that hardly change over the long step (a mask, a
    level) and elements that are zero up to rounding.
    """
    here, near, far = found.here[k], found.near[k], found.far[k]
    if here is None or near is None or far is None:
        return None
    actual, expected, size_here = near - here, found.ratio * (far - here), here.abs()
    known = size_here > SLACK
    told = known & ((far - here).abs() > MOVING * size_here)
    told &= (far - here).abs() < JUMPING * size_here
    told &= actual.abs() < OTHERWISE * (far - here).abs()  # a larger change is a tie or a kink
    off = told & ((actual - expected).abs() > OTHERWISE * expected.abs())
    if 2 * told.sum() < known.sum() or 2 * off.sum() <= told.sum():
        return None
    index = unraveled(int(torch.where(off, expected.abs(), -1.0).argmax()), here.shape)
    place = element(found.names[k].removeprefix("the "), index)
    return (
        f"{place} changes by {number(float(actual[index]), 2)} when every input changes by a "
        f"billionth; it should change by {number(float(expected[index]), 2)}"
    )


def _cancellation(evidence: Evidence) -> Match | None:
    """Report a result that loses too many digits in float32.

    Report nothing if the results for the example itself are inaccurate and there is no reference.
    In this case, the cause may be a solver that stops early in float32, or a less precise device.
    """
    calls = [call for call in evidence.variants.extremes if call.noise]
    if any(call.is_example and not call.right for call in calls):
        return None
    for call in calls:
        for k, measured in enumerate(zip(call.error, call.double, call.noise, strict=True)):
            times = excess(*measured)
            if times > EXCESSIVE:
                return _describe_loss(evidence, call, k, times)
    return None


def _describe_loss(evidence: Evidence, call: Extreme, k: int, times: float) -> Match:
    """Report the element with the largest ratio of error to noise."""
    error, noise, actual, right = (v[k] for v in (call.error, call.noise, call.single, call.double))
    assert error is not None
    assert noise is not None
    assert actual is not None
    assert right is not None
    worst = error / noise
    index = unraveled(int(worst.argmax()), worst.shape)
    relative = float((actual - right).abs()[index] / right.abs()[index])
    return Match(
        f"{call.names[k]} loses precision in float32 {call.how}: its error is about "
        f"{float(f'{times:.0e}'):.0f} times larger than rounding alone explains.",
        {
            "witness": f"{place(evidence, call, k, index)}: {at(actual, index)}, should be "
            f"{at(right, index)}, a relative error of {relative:.0e}"
        },
    )
