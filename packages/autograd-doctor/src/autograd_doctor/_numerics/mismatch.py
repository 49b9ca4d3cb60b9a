"""Find where a gradient differs from the expected one, and describe the difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import resolution, size, within
from autograd_doctor._numerics.structure import Structure, halved, structure_of
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.evidence import RANDOM, Cotangent, Evidence, Expected
from autograd_doctor.formatting import plain, unraveled

COARSE = 1e-4  # relative to the largest element: finite differences in float64 are more accurate
LEFT = 0.25  # relative to the error: an explanation must leave less than this unexplained


@dataclass(frozen=True)
class Mismatch:
    """An input whose gradient is wrong.

    ``known`` is a mask of the elements whose expected gradient is known.
    """

    evidence: Evidence
    slot: int  # index among the wanted inputs
    actual: Tensor
    expected: Expected
    returned: bool  # False if the engine received no gradient at all

    @property
    def position(self) -> int:
        """The input's position among the arguments of the call."""
        return self.evidence.wanted[self.slot]

    @property
    def name(self) -> str:
        """The name of the input in the Function's signature."""
        return self.evidence.name(self.position)

    @property
    def input(self) -> Tensor:
        """The input itself."""
        value: Tensor = self.evidence.inputs[self.position]
        return value

    @property
    def truth(self) -> Tensor:
        """The expected gradient, with NaN where it is unknown."""
        return self.expected.value

    @property
    def known(self) -> Tensor:
        """A mask of the elements whose expected gradient is known."""
        return ~torch.isnan(self.truth)

    @property
    def wrong(self) -> Tensor:
        """A mask of the elements that are certainly wrong."""
        return self.known & ~within(self.actual, self.expected)

    @property
    def coarse(self) -> bool:
        """Whether only a few digits of the expected gradient are known, as in float32."""
        tolerance = self.expected.tolerance.expand_as(self.truth)[self.known]
        return float(tolerance.median()) > COARSE * self._largest

    @property
    def relative(self) -> float:
        """The largest error in the gradient, relative to the gradient's largest element."""
        off = size((self.actual - self.truth)[self.known])
        return off / self._largest if self._largest else 0.0

    @property
    def _largest(self) -> float:
        return max(size(self.truth[self.known]), size(self.actual[self.known]))

    def fits(self, candidate: Tensor | None) -> bool:
        """Return whether the actual gradient agrees with the result of a typical mistake."""
        if candidate is None or candidate.shape != self.actual.shape:
            return False
        known = self.known & ~torch.isnan(candidate)
        close = within(self.actual, Expected(candidate, self.expected.tolerance))[known]
        return bool(known.any()) and bool(close.all()) and self._explained(candidate, known)

    def _explained(self, candidate: Tensor, known: Tensor) -> bool:
        """Return whether a candidate explains most of the error.

        Without this condition, too many candidates would fit within a wide tolerance.
        """
        left, off = ((self.actual - t)[known].norm() for t in (candidate, self.truth))
        return not self.coarse or bool(left <= LEFT * off)


def mismatches(evidence: Evidence, vjp: Cotangent = RANDOM) -> tuple[Mismatch, ...]:
    """Return the inputs whose gradient is wrong in one backward pass."""
    return tuple(_mismatches(evidence, vjp))


def _mismatches(evidence: Evidence, vjp: Cotangent) -> Iterator[Mismatch]:
    for found in comparisons(evidence, vjp):
        if bool(found.wrong.any()) and (kept := _along_structure(found)) is not None:
            yield kept


def comparisons(evidence: Evidence, vjp: Cotangent = RANDOM) -> Iterator[Mismatch]:
    """Yield the comparison of each gradient with the expected one, even if they agree."""
    seen, truth = evidence.values.vjps.get(vjp), evidence.values.expected.get(vjp)
    if seen is None or seen.failure or truth is None:
        return
    for slot, (grad, expected) in enumerate(zip(seen.grads, truth, strict=True)):
        actual = torch.zeros_like(expected.value) if grad is None else grad.to(expected.value.dtype)
        rounding = resolution(actual) * size(actual)
        expected = Expected(halved(expected.value, actual), expected.tolerance + rounding)
        yield Mismatch(evidence, slot, actual, expected, grad is not None)


def _along_structure(found: Mismatch) -> Mismatch | None:
    """Restrict an error to input changes that keep the example's structure.

    Return ``None`` if no error remains. Inputs with this structure never change in other ways, so
    the gradient along other changes does not matter.
    """
    structure = structure_of(found.input)
    if structure is None:
        return found
    truth = torch.where(found.known, found.truth, found.actual)
    off = structure.tangent(found.actual - truth)
    tolerance = found.expected.tolerance.expand_as(truth).max()
    known = found.known
    if structure.is_matrix:
        known = known & _comparable(structure, known)
    if not bool((known & ~(off.abs() <= tolerance)).any()):
        return None
    if not structure.is_matrix:
        return found
    truth = torch.where(known, structure.tangent(truth), torch.nan)
    actual = structure.tangent(found.actual)
    wide = torch.full_like(found.expected.tolerance, float(tolerance))
    return replace(found, actual=actual, expected=Expected(truth, wide))


def _comparable(structure: Structure, known: Tensor) -> Tensor:
    """Return a mask of the free elements that depend only on known elements."""
    numbers = torch.arange(1.0, known.numel() + 1, dtype=torch.float64, device=known.device)
    numbers = numbers.view(known.shape)
    free = structure.tangent(numbers) != 0
    return free & (structure.tangent(torch.where(known, 0.0, numbers)) == 0)


ROUNDING = 1e-6  # relative


def witness(mismatch: Mismatch) -> dict[str, Any]:
    """Describe the element with the largest error: index, input, expected and actual gradient."""
    off = torch.where(mismatch.wrong, (mismatch.actual - mismatch.truth).abs(), -1.0)
    off = torch.where(mismatch.wrong & torch.isnan(off), torch.inf, off)
    # choose the first of several equal errors so that the choice does not depend on rounding
    furthest = off >= off.max() * (1 - ROUNDING)
    index = unraveled(int(furthest.flatten().int().argmax()), off.shape)
    surrogate = {"surrogate": True} if mismatch.evidence.values.surrogate else {}
    return {
        "input": mismatch.name,
        "index": list(index),
        "at": plain(mismatch.input[index]),
        **_beside(mismatch, index),
        **_upstream(mismatch, index),
        "expected": plain(mismatch.truth[index]),
        "actual": plain(mismatch.actual[index]),
        "line": return_line(mismatch.evidence.contract.backward_source),
        **surrogate,
    }


def _beside(mismatch: Mismatch, index: tuple[int, ...]) -> dict[str, Any]:
    """Return the other inputs at the same index, which help readers to check the gradient.

    If there are several outputs, also return every ``grad_output`` at this index. If an output does
    not have the input's shape, return an empty dict.
    """
    evidence, shape = mismatch.evidence, mismatch.input.shape
    gs = evidence.values.vjps[RANDOM].grad_outputs
    if not shape or any(g is None or g.shape != shape for g in gs):
        return {}
    given = {
        evidence.name(position): plain(value[index])
        for position, value in enumerate(evidence.inputs)
        if position != evidence.wanted[mismatch.slot] and is_float(value) and value.shape == shape
    }
    if len(gs) > 1:
        given |= {f"grad_outputs[{k}]": plain(g[index]) for k, g in enumerate(gs) if g is not None}
    return {"given": given} if given else {}


def _upstream(mismatch: Mismatch, index: tuple[int, ...]) -> dict[str, Any]:
    """If there is one output and it has the input's shape, return ``grad_output`` at this index."""
    gs = mismatch.evidence.values.vjps[RANDOM].grad_outputs
    if len(gs) != 1 or gs[0] is None or gs[0].shape != mismatch.input.shape:
        return {}
    return {"grad_output": plain(gs[0][index])}


def return_line(source: str) -> str:
    """Return the only return statement of a ``backward``, or ``""`` if there is none or several."""
    lines = [line.strip() for line in source.splitlines() if re.match(r"\s*return\b", line)]
    return lines[0] if len(lines) == 1 else ""
