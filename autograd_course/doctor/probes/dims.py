"""An argument named dim or axis: every axis must be treated alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from autograd_course.doctor.evidence import DIM_NAMES, Evidence, Twin
from autograd_course.doctor.probes.confirmed import TOLERANCE, Plain, all_alike, asked
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.passes import both_ways
from autograd_course.doctor.running.session import Session

MOST_AXES = 4  # of inputs of a higher rank, only the first ones are tried


@dataclass(frozen=True)
class Axis:
    """The axis that a call names: the argument's position, the axis, and the inputs' rank."""

    place: int
    home: int
    rank: int

    def moved(self, tensor: Tensor, axis: int) -> Tensor:
        """Move the named axis elsewhere; a tensor of another rank does not have it."""
        return tensor.movedim(self.home, axis).contiguous() if tensor.dim() == self.rank else tensor

    def spread(self, tensor: Tensor) -> Tensor:
        """Give a tensor of a lower rank the axes that broadcasting adds."""
        return tensor[(None,) * (self.rank - tensor.dim())]

    def back(self, tensor: Tensor | None, axis: int) -> Tensor | None:
        """Move it back."""
        if tensor is None or tensor.dim() != self.rank:
            return tensor
        return tensor.movedim(axis, self.home)


def dim_argument(session: Session, evidence: Evidence) -> Evidence:
    """Name other axes, with the inputs' axes moved so that the call means the same."""
    named = _named_axis(evidence)
    if named is None:
        return evidence

    def question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
        for axis, dim in _others(named, evidence.inputs[named.place]):
            yield from _called(session, evidence, plain, named, axis, dim)

    return asked(session, evidence, question, draws=False)


def _named_axis(evidence: Evidence) -> Axis | None:
    rank = max(value.dim() for value in evidence.inputs if isinstance(value, Tensor))
    for place, name in enumerate(evidence.parameters):
        dim = evidence.inputs[place]
        if name in DIM_NAMES and type(dim) is int and -rank <= dim < rank:
            return Axis(place, dim % rank, rank)
    return None


def _others(named: Axis, dim: int) -> Iterator[tuple[int, int]]:
    """Yield every axis, counted from the front and from the back, but for the call's own."""
    for axis in range(min(named.rank, MOST_AXES)):
        yield from ((axis, d) for d in (axis, axis - named.rank) if d != dim)


def _called(
    session: Session, evidence: Evidence, plain: Plain, named: Axis, axis: int, dim: int
) -> Iterator[Twin]:
    gs = [named.moved(g, axis) for g in plain.grad_outputs]
    for inputs in _readings(session, plain, named):
        moved = [named.moved(v, axis) if isinstance(v, Tensor) else v for v in inputs]
        moved[named.place] = dim
        done = both_ways(session, gs, inputs=moved)
        outputs = tuple(named.back(out, axis) for out in done.outputs)
        if not all_alike(outputs, plain.done.outputs):  # none where forward refuses this call
            continue
        grads = tuple(named.back(grad, axis) for grad in done.grads)
        came, should = replace(done, outputs=(), grads=grads), replace(plain.done, outputs=())
        how = _in_words(evidence.parameters[named.place], named.home, axis, dim)
        yield twin(evidence, "dim-argument", how, came, should, tolerance=TOLERANCE)
        return


def _readings(session: Session, plain: Plain, named: Axis) -> Iterator[list[Any]]:
    """Yield the inputs as they are, then with what is broadcast, as a mask, at full rank."""
    yield list(plain.inputs)
    data = {i for i, v in enumerate(plain.inputs) if isinstance(v, Tensor)} - set(session.wanted)
    lower = {i for i in data if 0 < plain.inputs[i].dim() < named.rank}
    if lower:
        yield [named.spread(v) if i in lower else v for i, v in enumerate(plain.inputs)]


def _in_words(name: str, home: int, axis: int, dim: int) -> str:
    moved = "" if home == axis else f"dim {home} is moved to dim {axis} and "
    return f"when {moved}`{name}={dim}` is passed"
