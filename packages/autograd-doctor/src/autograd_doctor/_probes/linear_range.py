"""Find a range of cotangents in which an intentionally nonlinear ``backward`` is linear.

``intentional="nonlinear-in-grad-output"`` declares a clipped, guided or thresholded backward.
``diagnose`` can still check its gradients. A clipped backward does not change a small
``grad_output``, and a guided backward does not change a positive ``grad_output``. Therefore, all
cotangents come from a range in which ``backward`` is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autograd_doctor._execution.passes import backward_pass
from autograd_doctor._execution.session import Session
from autograd_doctor._numerics.closeness import same, size
from autograd_doctor._numerics.projection import agrees
from autograd_doctor.evidence import Evidence, VjpResult

SMALL, TINY, LARGE = 1e-3, 1e-6, 1e3
ROUNDING = 1e-6  # relative to the gradient; float32 rounding is smaller

DECLARED = {"ignores-grad-output", "nonlinear-in-grad-output", "uniform-grad-output"}

# maps two random draws into the range
Place = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Range:
    """A range of cotangents: its description, and a function that maps random draws into it."""

    words: str
    place: Place
    real_only: bool = False


def _scaled(factor: float) -> Place:
    return lambda one, two: (factor * one, factor * two)


def _of_one_sign(factor: float) -> Place:
    return lambda one, two: (factor * one.abs(), factor * two.abs())


def _large(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    signs = torch.where(one < 0, -LARGE, LARGE)
    return signs * (1 + one.abs()), signs * (1 + two.abs())


def _constant(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    return torch.ones_like(one), 0.5 * torch.ones_like(two)


ANY = Range("", _scaled(1.0))
ONES = Range("whose elements are all equal", _constant)
RANGES = (
    ANY,
    Range(f"of about {SMALL:g}", _scaled(SMALL)),
    Range(f"of about {TINY:g}", _scaled(TINY)),
    Range("above 0", _of_one_sign(1.0), real_only=True),
    Range(f"above 0, of about {SMALL:g}", _of_one_sign(SMALL), real_only=True),
    Range("below 0", _of_one_sign(-1.0), real_only=True),
    Range(f"below 0, of about {SMALL:g}", _of_one_sign(-SMALL), real_only=True),
    Range(f"of {LARGE:g} or more", _large, real_only=True),
)


def linear_range(
    session: Session,
    evidence: Evidence,
    one: Sequence[Tensor],
    two: Sequence[Tensor],
    intentional: Collection[str],
) -> Range | None:
    """Return a range of cotangents in which ``backward`` is linear, or ``None`` if none exists.

    If no rule about linearity is in ``intentional``, the range is unlimited. If ``backward`` is
    linear in several ranges, return the first range in which the slopes of ``forward`` confirm the
    gradient. If the slopes do not confirm it in any range, the gradient is incorrect. In this case,
    return the first range with a nonzero gradient.
    """
    if not DECLARED.intersection(intentional):
        return ANY
    plain, second, zero, ones = _passes(session, [one, two, *_constants(one)])
    if "uniform-grad-output" in intentional and _parallel(plain, second):
        return ONES
    if "ignores-grad-output" in intentional and not _all_zero(zero):
        scalar = len(one) == 1 and one[0].numel() == 1
        never_read = _equal(plain, zero) and _equal(second, zero)
        return ONES if _confirmed(evidence, ones) or (scalar and never_read) else None
    if "nonlinear-in-grad-output" not in intentional:
        return ANY
    real = not any(g.is_complex() for g in one)
    linear = [
        (found, first)
        for found in RANGES
        if (real or not found.real_only)
        and (first := _linear(session, *drawn_from(found, one, two))) is not None
    ]
    confirmed = (found for found, first in linear if _confirmed(evidence, first))
    nonzero = (found for found, first in linear if not _all_zero(first))
    return next(confirmed, None) or next(nonzero, None)


def _constants(like: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield two sets of cotangents: all zeros, then all ones.

    The ``backward`` of a loss may ignore ``grad_output``. Its gradient is then correct only for
    cotangents of ones.
    """
    yield [torch.zeros_like(g) for g in like]
    yield [torch.ones_like(g) for g in like]


def _equal(one: VjpResult, other: VjpResult) -> bool:
    return not one.failure and all(map(same, one.grads, other.grads))


def _parallel(one: VjpResult, other: VjpResult) -> bool:
    """Return whether the gradients for two cotangents are proportional.

    They are, for example, if ``backward`` uses only the mean of ``grad_output``.
    """
    for a, b in zip(one.grads, other.grads, strict=False):
        if a is None or b is None or not bool(a.any()) or a.numel() < 2:
            continue
        factor = (a.conj() * b).sum() / (a.conj() * a).sum()
        if not same(b, factor * a):
            return False
    return not _all_zero(one)


def drawn_from(
    found: Range, one: Sequence[Tensor], two: Sequence[Tensor]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Map two standard normal draws into a range of cotangents."""
    pairs = [found.place(a, b) for a, b in zip(one, two, strict=True)]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _linear(session: Session, one: Sequence[Tensor], two: Sequence[Tensor]) -> VjpResult | None:
    """Return the backward pass for ``one`` if backward is linear for ``one`` and ``two``.

    Otherwise, return ``None``.
    """
    total = [a + b for a, b in zip(one, two, strict=True)]
    double = [2 * a for a in one]
    first, second, added, doubled = passes = list(_passes(session, [one, two, total, double]))
    if any(vjp.failure for vjp in passes):
        return None
    rows = zip(first.grads, second.grads, added.grads, doubled.grads, strict=True)
    for a, b, both, twice in rows:
        if a is None or b is None or both is None or twice is None:
            if any(g is not None for g in (a, b, both, twice)):
                return None
        elif not (_near(both, a + b) and _near(twice, 2 * a)):
            return None
    return first


def _near(one: Tensor, other: Tensor) -> bool:
    """Return whether two gradients agree up to float32 rounding errors."""
    return bool(torch.isclose(one, other, rtol=0, atol=ROUNDING * size(other)).all())


def _passes(session: Session, cotangents: Sequence[Sequence[Tensor]]) -> Iterator[VjpResult]:
    return (backward_pass(session, tuple(gs)) for gs in cotangents)


def _all_zero(vjp: VjpResult) -> bool:
    return not any(grad is not None and bool(grad.any()) for grad in vjp.grads)


def _confirmed(evidence: Evidence, vjp: VjpResult) -> bool:
    """Return whether the gradient agrees with the slopes of ``forward`` along random directions."""
    slopes = evidence.values.slopes
    smooth = slopes is not None and bool(slopes.smooth.all())
    return slopes is not None and smooth and not vjp.failure and agrees(evidence, slopes, vjp)
