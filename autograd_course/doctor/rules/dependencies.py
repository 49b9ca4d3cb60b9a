"""A gradient that follows one path from the input to the output and forgets another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.rules.terms import lacking_term
from autograd_course.doctor.rules.wording import ordinal
from autograd_course.doctor.running.calls import is_float

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
    if not bool(m.known.all()):
        return None
    constant = torch.ones_like(residual)
    for axis in reversed(range(residual.dim())):
        if residual.shape[axis] < 3:
            continue
        if _spanned(m, residual, [constant], axis):
            return _reduced(m, f"{_ONE}, along axis {axis} the same for every element")
        for name, tensor in _at_hand(m):
            if _spanned(m, residual, [tensor], axis):
                return _reduced(m, f"{_ONE}, along axis {axis} a multiple of {name}")
            if residual.shape[axis] > 3 and _spanned(m, residual, [constant, tensor], axis):
                return _reduced(
                    m,
                    f"two terms are missing or have a wrong factor, along axis {axis} one the same "
                    f"for every element, the other a multiple of {name}",
                )
    return None


def _reduced(m: Mismatch, what: str) -> str:
    return (
        f"the gradient of {m.name} is incomplete: {what}. Something that was reduced over that "
        "axis (a mean, a norm, a variance) was held fixed, or differentiated with a wrong factor"
    )


def _at_hand(m: Mismatch) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a term may be a multiple of, by name."""
    e = m.evidence
    tensors = {"the output": e.forward.outputs[0], m.name: m.input}
    tensors |= {f"saved tensor {i}": s for i, s in enumerate(e.forward.saved)}
    for name, tensor in tensors.items():
        if is_float(tensor) and tensor.shape == m.truth.shape:
            yield name, tensor


def _spanned(m: Mismatch, residual: Tensor, basis: Sequence[Tensor], axis: int) -> bool:
    """Whether every row of the residual along an axis is a combination of the basis' rows."""
    rows = torch.stack([t.movedim(axis, -1).to(residual.dtype) for t in basis], -1)
    target = residual.movedim(axis, -1).unsqueeze(-1)
    fitted = (rows @ (torch.linalg.pinv(rows) @ target)).squeeze(-1).movedim(-1, axis)
    tolerance = m.expected.tolerance + 1e-9 * residual.abs().max()
    return bool(((residual - fitted).abs() <= tolerance).all())
