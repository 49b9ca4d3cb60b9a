"""Describe where a gradient is incorrect: for which input values, and at which indices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import within
from autograd_doctor._numerics.mismatch import Mismatch, comparisons
from autograd_doctor._numerics.tensors import as_number, is_float
from autograd_doctor.evidence import DIM_NAMES, RANDOM, Expected
from autograd_doctor.formatting import elements

# --------------------------------------------------------------------------------------------------
# Describe a region that an argument (a mask, a class label or an index) selects.
# --------------------------------------------------------------------------------------------------

Region = tuple[str, Tensor]  # a condition in words, and the elements for which it is true


def labeled(m: Mismatch) -> str | None:
    """Return a condition on a label that is true exactly where the gradient is incorrect."""
    return next((where for where, holds in _regions(m) if _explains(m, holds)), None)


def _explains(m: Mismatch, holds: Tensor) -> bool:
    """Return whether a region contains all incorrect elements and no correct nonzero elements."""
    right_inside = m.known & ~m.wrong & holds
    right_outside = m.known & ~m.wrong & ~holds & (m.truth != 0)
    return (
        not bool((m.wrong & ~holds).any())
        and bool(right_outside.any())
        and not bool((m.truth[right_inside] != 0).any())
    )


def _regions(m: Mismatch) -> Iterator[Region]:
    for position, value in enumerate(m.evidence.inputs):
        name = m.evidence.name(position)
        if isinstance(value, Tensor) and not is_float(value):
            yield from _by_label(name, value, m.input.shape)
        elif isinstance(value, int) and not isinstance(value, bool) and name not in DIM_NAMES:
            yield from _by_index(name, value, m.input)


def _by_label(name: str, label: Tensor, shape: torch.Size) -> Iterator[Region]:
    """Yield one region for each value of a label.

    The label is a mask or an integer tensor with one value per element or per row. Each value of a
    mask selects a region. An integer selects a region only if it is negative (which often means
    "ignore") or occurs more than once.
    """
    if label.dim() == 0 or label.shape != shape[: label.dim()]:
        return
    rows = label.reshape(label.shape + (1,) * (len(shape) - label.dim())).expand(shape)
    values, counts = label.unique(return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if value is True or value is False or value < 0 or count > 1:
            yield f"`{name}` is {value}", rows == value


def _by_index(name: str, value: int, like: Tensor) -> Iterator[Region]:
    """For each dim, yield the slice at index ``value``, which is an argument of the call."""
    for axis, length in enumerate(like.shape):
        if length > 2 and -length <= value < length:
            holds = torch.zeros_like(like, dtype=torch.bool)
            holds.select(axis, value).fill_(True)
            yield f"the index along dim {axis} equals `{name}` (here {value})", holds


def selected(m: Mismatch) -> str:
    """Name the index tensor (for example, targets) that selects exactly the incorrect elements."""
    for position, index in enumerate(m.evidence.inputs):
        if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
            continue
        for dim, length in enumerate(m.input.shape):
            rest = (*m.input.shape[:dim], *m.input.shape[dim + 1 :])
            if (
                rest != index.shape
                or not index.numel()
                or not 0 <= index.min() <= index.max() < length
            ):
                continue
            holds = torch.zeros_like(m.input, dtype=torch.bool)
            holds.scatter_(dim, index.long().unsqueeze(dim), True)
            if length > 1 and int(m.wrong.sum()) > 1 and _explains(m, holds):
                return f"at the elements that `{m.evidence.name(position)}` selects along dim {dim}"
    return ""


# --------------------------------------------------------------------------------------------------
# Describe where a gradient is incorrect: at the edge of a dim, or for a range of input values.
# --------------------------------------------------------------------------------------------------


def edge(wrong: Tensor, known: Tensor) -> str | None:
    """Return the edge of a dim at which all incorrect elements lie, or ``None``."""
    for axis in reversed(range(wrong.dim())):
        length = wrong.shape[axis]
        # a single incorrect element may be at the edge by chance
        if length < 4 or wrong.numel() == length:
            continue
        places = sorted(slices_with(wrong, axis))
        names = {
            (0,): "the first index",
            (length - 1,): "the last index",
            (0, length - 1): "both ends",
        }
        name = names.get(tuple(places))
        whole = all(bool(wrong.select(axis, p)[known.select(axis, p)].all()) for p in places)
        all_seen = len(slices_with(known, axis)) == length
        if name and whole and all_seen:
            return f"{name} of dim {axis}"
    return None


def slice_of(wrong: Tensor, right: Tensor, name: str) -> str:
    """Name the slice that contains all incorrect elements, as in "at `x[:, 1:]`".

    Return ``""`` if this slice also contains correct elements. ``right`` marks only correct
    elements that are not 0, because a zero may be correct by chance.
    """
    if int(wrong.sum()) < 2:
        return ""
    holds = torch.ones_like(wrong)
    parts = []
    for axis, length in enumerate(wrong.shape):
        places = sorted(slices_with(wrong, axis))
        first, last = places[0], places[-1]
        if places != list(range(first, last + 1)):
            return ""
        inside = torch.zeros(length, dtype=torch.bool, device=wrong.device)
        inside[first : last + 1] = True
        holds &= inside.view(-1, *(1 for _ in wrong.shape[axis + 1 :]))
        parts.append(_part(first, last + 1, length))
    while parts and parts[-1] == ":":
        parts.pop()
    fills = bool(right.any()) and not bool((right & holds).any())
    return f"at `{name}[{', '.join(parts)}]`" if parts and fills else ""


def fills_slice(wrong: Tensor) -> bool:
    """Return whether the smallest slice with all incorrect elements contains no others."""
    volume = 1
    for axis in range(wrong.dim()):
        places = slices_with(wrong, axis)
        volume *= max(places) - min(places) + 1
    return volume == int(wrong.sum())


def by_norm(m: Mismatch) -> str:
    """Name an argument that separates the norms of incorrect slices from those of correct slices.

    If ``forward`` clamps a norm, as in ``max(norm, eps)``, the derivative changes where the norm
    equals ``eps``.
    """
    numbers = {m.evidence.name(i): as_number(v) for i, v in enumerate(m.evidence.inputs)}
    for axis in reversed(range(m.input.dim() if m.input.dim() > 1 else 0)):
        norms = m.input.norm(dim=axis)
        right = (m.known & ~m.wrong & (m.truth != 0)).any(axis)
        wrong = m.wrong.any(axis)
        if not bool(right.any()) or bool((wrong & right).any()):
            continue
        for name, bound in numbers.items():
            if bound is None or bound <= 0:
                continue
            for side, beyond in (("less", norms < bound), ("greater", norms > bound)):
                if bool(beyond[wrong].all()) and not bool(beyond[right].any()):
                    return f", where the norm along dim {axis} is {side} than `{name}`"
    return ""


def common_factor(ratios: Tensor) -> float | None:
    """Return the common value of all ratios, or ``None`` if the ratios differ."""
    if ratios.is_complex() or not ratios.numel() or not bool(ratios.isfinite().all()):
        return None
    factor = ratios.mean()
    alike = bool(((ratios - factor).abs() <= 1e-5 * factor.abs()).all())
    return float(factor) if alike else None


def _part(first: int, end: int, length: int) -> str:
    """Format the index range from ``first`` to ``end`` in Python syntax."""
    if end - first == 1 and length > 1:
        return str(first)
    return f"{first or ''}:{end if end < length else ''}"


def slices_with(mask: Tensor, axis: int) -> set[int]:
    """Return the indices of all slices along a dim that contain a marked element."""
    return set(mask.nonzero()[:, axis].tolist())


def region(m: Mismatch) -> str | None:
    """Describe the input values for which the gradient is incorrect, and the kind of error.

    Name a bound for all inputs only if the evidence from other inputs supports it. Otherwise, say
    which elements of this input the bound separates.
    """
    right = m.known & ~m.wrong
    if m.actual.is_complex() or not bool(right.any()):
        return None
    typical = _typical_of_masks(m)
    instead = typical or _scaled(m)
    explained = typical is not None or (instead is not None and not _is_a_slice(m))
    what = f" ({instead} there)" if instead else ""
    told = f"the gradient of `{m.name}` is wrong only where "

    def certain(seen: Sequence[Mismatch]) -> Iterator[Threshold]:
        for threshold in _thresholds(Elements.of(seen), every=typical == _PASSED_ON):
            if m.coarse:  # small elements count as correct, so 0 is the only reliable bound
                if threshold.at_zero and instead is not None:
                    yield threshold
            elif threshold.chance < 0.01 or explained:
                yield threshold

    for threshold in certain([m, *_on_other_inputs(m)]):
        if threshold.is_supported:
            return f"{told}`{threshold.text}`{what}"
    if own := next(certain([m]), None):
        count = elements(int(m.wrong.sum()), int(m.known.sum()))
        return f"the gradient of `{m.name}` is wrong at {count}, namely where `{own.text}`{what}"
    if m.coarse:
        return None
    if label := labeled(m):
        return f"{told}{label}{what}"
    return f"{told}several elements have the same value" if _ties(m, right) else None


def _on_other_inputs(m: Mismatch) -> Iterator[Mismatch]:
    """Yield the comparisons of the same gradient on other inputs with the same numbers.

    Leave out comparisons that are less precise, or more precise, than this one.
    """
    numbers = [as_number(value) for value in m.evidence.inputs]
    for evidence in m.evidence.others:
        if [as_number(value) for value in evidence.inputs] == numbers:
            for other in comparisons(evidence):
                if other.slot == m.slot and other.coarse == m.coarse:
                    yield other


@dataclass(frozen=True)
class Elements:
    """The elements of an input in one or several calls, as vectors.

    ``numbers`` holds the numbers among the arguments. ``beside`` maps the names of other inputs
    that have the same shape to their elements.
    """

    name: str
    numbers: tuple[float, ...]
    values: Tensor
    wrong: Tensor
    right: Tensor
    truth: Tensor
    error: Tensor
    tolerance: Tensor
    beside: Mapping[str, Tensor]

    @classmethod
    def of(cls, seen: Sequence[Mismatch]) -> Elements:
        """Return the elements from all comparisons of one gradient."""
        first, beside = seen[0], [dict(_others(m)) for m in seen]
        numbers = [as_number(value) for value in first.evidence.inputs]
        return cls(
            first.name,
            tuple(number for number in numbers if number is not None),
            _joined(m.input for m in seen),
            _joined(m.wrong for m in seen),
            _joined(m.known & ~m.wrong for m in seen),
            _joined(m.truth for m in seen),
            _joined((m.actual - m.truth).abs() for m in seen),
            _joined(m.expected.tolerance.expand_as(m.truth) for m in seen),
            {
                name: _joined(each[name] for each in beside)
                for name in beside[0]
                if all(name in each for each in beside)
            },
        )


def _joined(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _is_a_slice(m: Mismatch) -> bool:
    """Return whether the incorrect elements fill a slice and the input is not sorted.

    In this case, a bound may separate incorrect from correct elements by chance.
    """
    flat = m.input.flatten()
    is_sorted = bool((flat.diff() >= 0).all()) or bool((flat.diff() <= 0).all())
    return not is_sorted and bool(slice_of(m.wrong, m.known & ~m.wrong & (m.truth != 0), m.name))


def _right_ones(m: Elements) -> Iterator[Tensor]:
    """Yield a mask of all correct elements, then a mask of those with a nonzero gradient.

    A wrong factor does not show where the gradient is 0. An additional gradient does.
    """
    yield m.right
    telling = m.right & (m.truth != 0)
    has_factor = bool((m.truth[m.wrong] != 0).any())
    if has_factor and bool(telling.any()) and not torch.equal(telling, m.right):
        yield telling


_PASSED_ON = "the gradient equals `grad_output`"


def _typical_of_masks(m: Mismatch) -> str | None:
    """Describe the incorrect elements if all are zero, sign-flipped or equal to ``grad_output``.

    These values are typical of an incorrect mask. Return ``None`` for other values.
    """
    wrong, actual, truth = m.wrong, m.actual[m.wrong], m.truth[m.wrong]
    tolerance = m.expected.tolerance.expand_as(m.truth)[wrong]
    gs = [g for g in m.evidence.values.vjps[RANDOM].grad_outputs if g is not None]
    known_things: dict[str, Tensor] = {
        "the gradient is zero": torch.zeros_like(truth),
        "the gradient has the wrong sign": -truth,
    }
    if len(gs) == 1 and gs[0].shape == m.truth.shape:
        known_things[_PASSED_ON] = gs[0][wrong]
    for name, value in known_things.items():
        if bool(within(actual, Expected(value, tolerance)).all()):
            return name
    return None


def _scaled(m: Mismatch) -> str | None:
    """Describe the common factor of all incorrect elements, or return ``None``."""
    actual, truth = m.actual[m.wrong], m.truth[m.wrong]
    if truth.numel() > 1 and bool((truth != 0).all()):
        ratio = actual / truth
        if bool(torch.isclose(ratio, ratio[0], rtol=1e-6).all()) and not 0.99 < ratio[0] < 1.01:
            return f"the gradient is {float(ratio[0]):.4g} times the true gradient"
    return None


FEWEST = 5  # correct elements beyond a bound


class Threshold(NamedTuple):
    """A condition on the inputs that is true for all incorrect elements and false for correct ones.

    ``chance`` is the probability that the condition separates random elements equally well.
    ``is_supported`` is true if enough correct elements lie beyond the bound and near it.
    ``at_zero`` is true if the bound is 0.
    """

    text: str
    chance: float
    is_supported: bool
    at_zero: bool = False


def _thresholds(m: Elements, *, every: bool) -> Iterator[Threshold]:
    """Yield the conditions that fit.

    If ``every`` is true, a correct element counts even if its gradient is 0.
    """
    for right in [m.right] if every else _right_ones(m):
        yield from _halves(m, right, m.values, m.name)
        for name, other in m.beside.items():
            yield from _halves(m, right, m.values - other, m.name, beside=name)
        if not _fades_at_zero(m, right):
            yield from _outside(m, right)
            yield from _halves(m, right, m.values.abs(), f"|{m.name}|")


def _fades_at_zero(m: Elements, right: Tensor) -> bool:
    """Return whether the correct elements may only be too close to 0 to show the error.

    This is so if an error that grows like ``|x|³`` from 0 explains the smallest incorrect element
    and is within the tolerance at the largest correct one.
    """
    size = m.values.abs()
    first, last = size[m.wrong].argmin(), size[right].argmax()
    ratio = size[right][last] / size[m.wrong][first]
    return bool(ratio < 1 and m.error[m.wrong][first] * ratio**3 <= m.tolerance[right][last])


def _halves(
    m: Elements, right: Tensor, value: Tensor, name: str, beside: str = ""
) -> Iterator[Threshold]:
    """Yield each condition of the form ``value < bound`` or ``value > bound`` that fits.

    If ``beside`` is given, it names another input, and ``value`` is the difference between the two
    inputs.
    """
    bad, good = value[m.wrong], value[right]
    chance = 4 / max(1, math.comb(bad.numel() + good.numel(), bad.numel()))
    for sign, low, high in (("<", bad.max(), good.min()), (">", good.max(), bad.min())):
        if float(low) < float(high):
            bound = _bound(m, float(low), float(high))
            text = f"{name} {_beyond(sign, bad, bound, beside)}"
            supported = _supports(good, float(high - low))
            yield Threshold(text, chance, supported, at_zero=bound == "0" and not beside)


def _supports(good: Tensor, gap: float) -> bool:
    """Return whether the correct elements show that a bound lies in the gap next to them."""
    values = good.unique()
    return len(values) >= FEWEST and gap <= 0.5 * float(values[-1] - values[0])


def _outside(m: Elements, right: Tensor) -> Iterator[Threshold]:
    """Yield the condition that the input is outside an interval, if this condition fits.

    The interval contains all correct elements, and incorrect elements lie on both sides of it. A
    backward that ignores a clamp produces this pattern.
    """
    bad, good = m.values[m.wrong], m.values[right]
    below, above = bad[bad < good.min()], bad[bad > good.max()]
    if not below.numel() or not above.numel() or below.numel() + above.numel() < bad.numel():
        return
    first, last = (float(below.max()), float(good.min())), (float(good.max()), float(above.min()))
    low, high = _bound(m, *first), _bound(m, *last)
    if low == f"-{high}":
        return  # a condition on |x| is shorter
    count = bad.numel() + good.numel()
    chance = 4 * count / math.comb(count, bad.numel())
    supported = all(_supports(good, end - start) for start, end in (first, last))
    yield Threshold(f"{m.name} < {low} or {m.name} > {high}", chance, supported)


def _beyond(sign: str, bad: Tensor, bound: str, other: str) -> str:
    """Format the right-hand side of a condition, such as ``< 0``, ``<= y`` or ``is 0``.

    ``bad`` holds the values of the incorrect elements.
    """
    on_it = bad == float(bound)
    sign = "is" if bool(on_it.all()) else f"{sign}=" if bool(on_it.any()) else sign
    return f"{sign} {_beside(other, bound) if other else bound}"


def _beside(other: str, apart: str) -> str:
    """Format another input plus or minus a number: ``y``, ``y + 0.5`` or ``y - 0.5``."""
    if apart == "0":
        return other
    return f"{other} - {apart[1:]}" if apart.startswith("-") else f"{other} + {apart}"


def _others(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the value of every other real input that has the same shape."""
    for position, other in enumerate(m.evidence.inputs):
        comparable = is_float(other) and other.shape == m.input.shape and not other.is_complex()
        if comparable and position != m.position:
            yield m.evidence.name(position), other


def _bound(m: Elements, low: float, high: float) -> str:
    """Return the most likely bound from ``low`` to ``high``: 0, an argument or a short decimal."""
    middle = (low + high) / 2
    rounded = [float(f"{middle:.{digits}g}") for digits in range(1, 5)]
    likely = (0, *m.numbers, *(-v for v in m.numbers), 1, -1, *rounded, middle)
    return f"{next(v for v in likely if low <= v <= high):.12g}"


def _ties(m: Mismatch, right: Tensor) -> bool:
    """Return whether an element is incorrect if and only if its value occurs more than once."""
    x = m.input
    _, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    tied = counts[inverse] > 1
    return bool(tied[m.wrong].all()) and not bool((tied & right & (m.truth != 0)).any())
