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


def missing_dependency(m: Mismatch) -> str | None:
    """One factor was differentiated and another held fixed."""
    term = lacking_term(m)
    for cut, grads in m.evidence.held_fixed.items():
        if m.fits(grads[m.slot]):
            named = f". The missing term is `{term}`" if term else ""
            ways, constant = (
                ("paths", "the results of these operations as constants")
                if " and " in cut
                else ("path", "the result of this operation as a constant")
            )
            return (
                f"the gradient of `{m.name}` does not include the {ways} through {cut}: `backward` "
                f"treats {constant}{named}"
            )
    if path := _output_path(m):
        return path
    if term:
        return (
            f"the gradient of `{m.name}` lacks the term `{term}`: `backward` treats a part of "
            "`forward` as a constant"
        )
    return _row_term(m)


def _output_path(m: Mismatch) -> str | None:
    """One of several outputs sends nothing back."""
    for name, pull in m.evidence.pulls.items():
        if name.startswith("only") and not pull.failure:
            grad, truth = pull.grads[m.slot], m.evidence.expected[name][m.slot].value
            if (grad is None or not bool(grad.any())) and bool((truth.nan_to_num() != 0).any()):
                return (
                    f"the gradient of `{m.name}` does not include the path through the "
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
            return _reduced(m, where, "constant")
        for name, tensor in _at_hand(m):
            if _spanned(m, residual, [tensor], axes):
                return _reduced(m, where, f"a multiple of {name}")
            if length > 3 and _spanned(m, residual, [constant, tensor], axes):
                return _reduced(m, where, f"a constant plus a multiple of {name}")
    return None


def _slices(residual: Tensor) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the dims over which forward may have reduced: all, all but the first, each."""
    every = tuple(range(residual.dim()))
    if len(every) > 1:
        yield "across the whole tensor", every
    if len(every) > 2:
        yield "within each slice along dim 0", every[1:]
    yield from ((f"along dim {axis}", (axis,)) for axis in reversed(every))


def _reduced(m: Mismatch, where: str, what: str) -> str:
    return (
        f"{where}, the error in the gradient of `{m.name}` is {what}. `forward` probably reduces "
        "over these elements (a mean, a norm, a variance), and `backward` treats the result as a "
        "constant or differentiates it with a wrong factor"
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
    """Whether every slice of the residual over some dims is a combination of the basis' slices."""
    last = tuple(range(-len(axes), 0))

    def rows(tensor: Tensor) -> Tensor:
        return tensor.expand_as(residual).movedim(axes, last).flatten(-len(axes))

    span = torch.stack([rows(t.to(residual.dtype)) for t in basis], -1)
    target = rows(residual).unsqueeze(-1)
    fitted = span @ (torch.linalg.pinv(span) @ target)
    tolerance = rows(m.expected.tolerance + 1e-9 * residual.abs().max()).unsqueeze(-1)
    return bool(((target - fitted).abs() <= tolerance).all())
