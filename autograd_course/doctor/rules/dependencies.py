"""A gradient that follows one path from the input to the output and forgets another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.rules.terms import lacking_term
from autograd_course.doctor.rules.wording import ordinal
from autograd_course.doctor.running.calls import is_float

FEWEST = 6  # elements of a tensor that is a single slice: fewer are met by chance
_ONE = "a term is missing or has a wrong factor"


def missing_dependency(m: Mismatch) -> str | None:
    """One factor was differentiated and another held fixed."""
    term = lacking_term(m)
    for cut, grads in m.evidence.held_fixed.items():
        if m.fits(grads[m.slot]):
            named = f" The missing term is {term}" if term else ""
            return (
                f"the gradient of {m.name} misses what comes back through {cut}: it is right only "
                f"if the result there did not depend on {m.name}.{named}".rstrip(".")
            )
    if path := _output_path(m):
        return path
    if term:
        return (
            f"the gradient of {m.name} lacks the term {term}: a factor of forward that depends on "
            f"{m.name} was held fixed"
        )
    return _row_term(m)


def _output_path(m: Mismatch) -> str | None:
    """One of several outputs sends nothing back."""
    for name, pull in m.evidence.pulls.items():
        if name.startswith("only") and not pull.failure:
            grad, truth = pull.grads[m.slot], m.evidence.expected[name][m.slot].value
            if (grad is None or not bool(grad.any())) and bool((truth.nan_to_num() != 0).any()):
                return (
                    f"the gradient of {m.name} misses the part that comes back through the "
                    f"{ordinal(name)} output"
                )
    return None


def _row_term(m: Mismatch) -> str | None:
    """The residual is, row by row, the same for every element, a multiple of a tensor, or both."""
    residual = m.actual - m.truth
    if m.coarse or not bool(m.known.all()):
        return None
    constant = torch.ones_like(residual)
    for where, axes in _slices(residual):
        length = math.prod(residual.shape[axis] for axis in axes)
        if length < 3 or (len(axes) == residual.dim() > 1 and length < FEWEST):
            continue
        if _spanned(m, residual, [constant], axes):
            return _reduced(m, f"{_ONE}, {where} the same for every element")
        for name, tensor in _at_hand(m):
            if _spanned(m, residual, [tensor], axes):
                return _reduced(m, f"{_ONE}, {where} a multiple of {name}")
            if length > 3 and _spanned(m, residual, [constant, tensor], axes):
                return _reduced(
                    m,
                    f"two terms are missing or have a wrong factor, {where} one the same for every "
                    f"element, the other a multiple of {name}",
                )
    return None


def _slices(residual: Tensor) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the axes over which forward may have reduced: all, all but the first, each."""
    every = tuple(range(residual.dim()))
    if len(every) > 1:
        yield "in the whole tensor", every
    if len(every) > 2:
        yield "in each slice of axis 0", every[1:]
    yield from ((f"along axis {axis}", (axis,)) for axis in reversed(every))


def _reduced(m: Mismatch, what: str) -> str:
    reduced = "reduced over that axis" if "along axis" in what else "reduced there"
    return (
        f"the gradient of {m.name} is incomplete: {what}. Something that was {reduced} (a mean, a "
        "norm, a variance) was held fixed, or differentiated with a wrong factor"
    )


def _at_hand(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a term may be a multiple of, by name."""
    e = m.evidence
    tensors = {"the output": e.forward.outputs[0], m.name: m.input}
    tensors |= {f"saved tensor {i}": s for i, s in enumerate(e.forward.saved)}
    for name, tensor in tensors.items():
        if is_float(tensor) and tensor.shape == m.truth.shape:
            yield name, tensor


def _spanned(m: Mismatch, residual: Tensor, basis: Sequence[Tensor], axes: tuple[int, ...]) -> bool:
    """Whether every slice of the residual over some axes is a combination of the basis' slices."""
    last = tuple(range(-len(axes), 0))

    def rows(tensor: Tensor) -> Tensor:
        return tensor.expand_as(residual).movedim(axes, last).flatten(-len(axes))

    span = torch.stack([rows(t.to(residual.dtype)) for t in basis], -1)
    target = rows(residual).unsqueeze(-1)
    fitted = span @ (torch.linalg.pinv(span) @ target)
    tolerance = rows(m.expected.tolerance + 1e-9 * residual.abs().max()).unsqueeze(-1)
    return bool(((target - fitted).abs() <= tolerance).all())
