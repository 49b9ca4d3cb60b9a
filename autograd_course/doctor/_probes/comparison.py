"""Ask a question of the example, and, where the answer is a difference, once more elsewhere.

On an example with ties, zeros or equal entries a correct Function may answer differently: a maximum
picks another of its equals when memory is laid out otherwise, and a mean that is subtracted over
the batch stays unseen where all rows are equal. Such a difference is gone on values that have
nothing in common; that of a mistake is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import same, size
from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.running.calls import as_tuple, attempt, fresh, is_float
from autograd_course.doctor.running.passes import Pass, both_ways, copies, drawn
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.world.randomness import Stream, generator

TOLERANCE = 1e-6  # a wrong layout, slice or mask is far off; another order of summation is not
SPREAD = 0.05  # how far an element is moved: enough to break ties, too little to leave most domains


@dataclass(frozen=True)
class Plain:
    """The call made the plain way: its inputs, the cotangents sent back, and what came of it."""

    inputs: tuple[Any, ...]
    grad_outputs: tuple[Tensor, ...]
    done: Pass


Question = Callable[[Session, Evidence, Plain], Iterable[Twin]]


def asked(
    session: Session, evidence: Evidence, question: Question, *, draws: bool = True
) -> Evidence:
    """Return the evidence with a question's twins, without those that only the example shows.

    Unless ``draws``, a subject whose results depend on random draws is not asked: made the other
    way, the draws would fall on other elements.
    """
    try:
        twins = _lasting(session, evidence, question, draws)
    except DoctorError:  # made the other way, a call does not come to an end: it tells nothing
        twins = ()
    return replace(evidence, twins=(*evidence.twins, *twins))


def _lasting(
    session: Session, evidence: Evidence, question: Question, draws: bool
) -> tuple[Twin, ...]:
    twins = tuple(question(session, evidence, on_example(evidence)))
    if all(map(agrees, twins)):
        return twins
    there = _elsewhere(session, evidence, draws)
    again = question(session, evidence, there) if there else ()
    differing = {twin.how for twin in again if not agrees(twin)}
    return tuple(twin for twin in twins if agrees(twin) or twin.how in differing)


def on_example(evidence: Evidence) -> Plain:
    """Return the plain call on the example, which is among the evidence already."""
    pull = evidence.pulls["random"]
    outputs = tuple(out for out in evidence.forward.outputs if is_float(out))
    sent = tuple(g for g in pull.grad_outputs if g is not None)
    return Plain(evidence.inputs, sent, Pass(outputs, pull.grads))


def plain_call(session: Session, inputs: Sequence[Any], rng: torch.Generator) -> Plain:
    """Make the plain call on other inputs, with new cotangents."""
    sent: list[Tensor] = []

    def cotangents(outputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
        sent.extend(drawn(outputs, rng))
        return copies(sent)

    done = both_ways(session, cotangents, inputs=inputs)
    return Plain(tuple(inputs), tuple(sent), done)


def jittered(value: Any, rng: torch.Generator) -> Any:
    """Move every element of a floating tensor by its own small random step away from zero.

    Zeros move as well, upwards; signs stay.
    """
    if not is_float(value) or not value.numel():
        return value
    step = SPREAD * torch.rand(value.shape, generator=rng, dtype=torch.float64).to(value.device)
    return torch.where(value == 0, step * (size(value) or 1.0), value * (1 + step))


def agrees(twin: Twin) -> bool:
    """Whether both ways brought the same, up to rounding."""
    pairs = zip(twin.came, twin.should, strict=True)
    return twin.failure is None and all(alike(one, other, twin.floor) for one, other in pairs)


def all_alike(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """Whether two calls brought as many results, each pair alike."""
    return len(some) == len(others) and all(map(alike, some, others))


def alike(one: Tensor | None, other: Tensor | None, floor: float = 0.0) -> bool:
    """Whether two results have one shape and the same values; no gradient counts as zeros."""
    if one is None or other is None:
        rest = other if one is None else one
        return rest is None or not bool((rest.abs() > floor).any())
    if one.shape != other.shape:
        return False
    near = torch.equal(one, other) or same(one, other)
    return near or bool(((one - other).abs() <= floor).all())


def _elsewhere(session: Session, evidence: Evidence, draws: bool) -> Plain | None:
    """Return the plain call on jittered inputs, ``None`` where it fails or does not repeat."""
    rng = generator(session.seed, Stream.ELSEWHERE)
    there = plain_call(session, [jittered(value, rng) for value in evidence.inputs], rng)
    if there.done.failure or not (draws or _drawn_on(session, there)):
        return None
    again = both_ways(session, there.grad_outputs, inputs=there.inputs)
    same_again = all_alike(again.outputs, there.done.outputs)
    return there if same_again and all_alike(again.grads, there.done.grads) else None


def _drawn_on(session: Session, plain: Plain) -> bool:
    """Whether forward brings the same if it goes on drawing where its last call stopped."""
    _, args = fresh(plain.inputs, session.wanted)
    returned = attempt(lambda: as_tuple(session.subject.call(*args)))
    if isinstance(returned, Failure):
        return False
    return all_alike([out for out in returned if is_float(out)], plain.done.outputs)
