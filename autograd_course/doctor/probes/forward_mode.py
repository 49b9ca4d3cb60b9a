"""Hold forward mode against backward mode: ⟨g, J v⟩ = ⟨Jᵀ g, v⟩, without any differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from autograd_course.doctor.comparing.closeness import cancellation, resolution
from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.probes.confirmed import Plain, asked
from autograd_course.doctor.probes.definitions import definitions
from autograd_course.doctor.probes.twins import output_names
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.passes import both_ways, drawn
from autograd_course.doctor.running.session import Arrange, Session
from autograd_course.doctor.truth.differences import flat
from autograd_course.doctor.words import listed
from autograd_course.doctor.world.randomness import Stream, generator

ROUNDING = 1e-6  # of what is added up: a step in float32 inside forward is no mistake

ByPosition = Mapping[int, Tensor | None]  # tangents or gradients, by position in the call


def forward_mode(session: Session, evidence: Evidence) -> Evidence:
    """Put tangents beside gradients, where every Function in the graph brings its own jvp."""
    functions = definitions(session)
    if not functions or any(function.jvp is Function.jvp for function in functions):
        return evidence
    return asked(session, evidence, _question)


def _question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    tangents = drawn_tangents(session, plain.inputs)
    gradients = list(_by_output(session, plain))
    for how, moving in _moving(evidence, tangents):
        given = _copied(moving)
        came = attempt(lambda: _pushed(session, plain.inputs, given))  # noqa: B023 - called here
        if not isinstance(came, Failure):
            yield from _compared(evidence, how, plain.grad_outputs, came, gradients, moving)
            yield from _left_alone(evidence, how, given, moving)
        elif evidence.forward.whole:  # in a callable, another operation may lack forward mode
            yield Twin("jvp", how, failure=came, stage="forward mode")


def drawn_tangents(session: Session, inputs: Sequence[Any]) -> dict[int, Tensor]:
    """Return a random tangent for each input that is differentiated."""
    likes = [inputs[position] for position in session.wanted]
    found = drawn(likes, generator(session.seed, Stream.TANGENTS))
    return dict(zip(session.wanted, found, strict=True))


def _copied(tangents: ByPosition) -> ByPosition:
    return {position: None if v is None else v.clone() for position, v in tangents.items()}


def _left_alone(
    evidence: Evidence, how: str, after: ByPosition, before: ByPosition
) -> Iterator[Twin]:
    """Yield each tangent beside what it was before jvp got it: other operations read it too.

    Where forward changes its input in place, jvp has to do so with the tangent.
    """
    if evidence.forward.dirty:
        return
    for position, tangent in before.items():
        name = f"the tangent of `{evidence.name(position)}`"
        yield Twin("tangent", how, (name,), (after[position],), (tangent,))


def _moving(evidence: Evidence, tangents: ByPosition) -> Iterator[tuple[str, ByPosition]]:
    """Yield each tangent alone, the others being zero, and then all together."""
    names = [f"`{evidence.name(position)}`" for position in tangents]
    alone = " alone" if len(names) > 1 else ""
    for name, position in zip(names, tangents, strict=True):
        yield f"for a tangent of {name}{alone}", {position: tangents[position]}
    if alone:
        yield f"for tangents of {listed(names, len(names))}", tangents


def _by_output(session: Session, plain: Plain) -> Iterator[ByPosition]:
    """Yield the gradients that each output sends back by itself."""
    gs = plain.grad_outputs
    if len(gs) == 1:
        yield dict(zip(session.wanted, plain.done.grads, strict=True))
        return
    for k in range(len(gs)):
        only = [g if j == k else None for j, g in enumerate(gs)]
        grads = both_ways(session, only, inputs=plain.inputs).grads
        yield dict(zip(session.wanted, grads, strict=False))


def _pushed(session: Session, inputs: Sequence[Any], tangents: ByPosition) -> list[Tensor | None]:
    """Push tangents through one call in forward mode."""
    with forward_ad.dual_level():
        floats = session.run(inputs=inputs, wanted=(), arrange=duals(tangents)).floats
        pushed = [forward_ad.unpack_dual(out).tangent for out in floats]
        return [None if tangent is None else tangent.detach().clone() for tangent in pushed]


def duals(tangents: ByPosition) -> Arrange:
    """Return what puts a tangent beside each argument that has one, within a dual level."""

    def dual(args: list[Any]) -> list[Any]:
        pairs = ((arg, tangents.get(i)) for i, arg in enumerate(args))
        return [arg if v is None else forward_ad.make_dual(arg, v) for arg, v in pairs]

    return dual


def _compared(
    evidence: Evidence,
    how: str,
    grad_outputs: Sequence[Tensor],
    pushed: Sequence[Tensor | None],
    gradients: Sequence[ByPosition],
    tangents: ByPosition,
) -> Iterator[Twin]:
    """Yield both numbers for each output."""
    names = output_names(len(grad_outputs))
    for name, g, tangent, grads in zip(names, grad_outputs, pushed, gradients, strict=True):
        came, size, coarse = _inner([(g, tangent)])
        pairs = [(v, grads.get(position)) for position, v in tangents.items()]
        should, other_size, other_coarse = _inner(pairs)
        larger = max(abs(came), abs(should)) or 1.0
        # Relative to the terms, not to their sum: that may be small because they cancel.
        tolerance = max(ROUNDING, coarse, other_coarse) * max(1.0, (size + other_size) / larger)
        numbers = [(torch.tensor(value, dtype=torch.float64),) for value in (came, should)]
        moved = sum(float(v.abs().sum()) for v in tangents.values() if v is not None)
        floor = cancellation(evidence) * moved
        yield Twin("jvp", how, (name,), numbers[0], numbers[1], tolerance, floor=floor)


def _inner(pairs: Sequence[tuple[Tensor | None, Tensor | None]]) -> tuple[float, float, float]:
    """Return a sum of inner products, the size of its terms, and how coarse the second are."""
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    terms = flat([]) if not known else torch.cat([flat([a]) * flat([b]) for a, b in known])
    coarse = max((resolution(other) for _, other in known), default=0.0)
    return float(terms.sum()), float(terms.norm()), coarse
