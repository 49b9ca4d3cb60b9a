"""Forward under autocast and backward outside of it, as training loops do, beside float32."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.passes import Pass, both_ways
from autograd_course.doctor.running.session import Move, Session
from autograd_course.doctor.truth.rounding import alike, distance, each, peaks, wide
from autograd_course.doctor.world.randomness import Stream, generator

LOW = torch.bfloat16
FAR = 0.1  # of the size: some 25 times the rounding of bfloat16


def autocast(session: Session, evidence: Evidence) -> Evidence:
    """Return the evidence with a twin of the call, made under autocast."""
    if any(isinstance(v, Tensor) and v.is_complex() for v in session.inputs):
        return evidence
    plain = _pass(session, lambda t: t.float())
    rounded = _pass(_otherwise_random(session), lambda t: t.to(LOW).float())
    if plain.failure or rounded.failure:
        return evidence
    came = _pass(_under_autocast(session), lambda t: t.float())
    how = f"under autocast to {str(LOW).removeprefix('torch.')}"
    tolerance = max(FAR, 10 * _change(rounded, plain))
    found = twin(evidence, "autocast", how, came, plain, tolerance=tolerance)
    return replace(evidence, twins=(*evidence.twins, found))


def _under_autocast(session: Session) -> Session:
    device = session.inputs[session.wanted[0]].device.type
    call = torch.autocast(device, dtype=LOW)(session.subject.call)
    subject = replace(session.subject, call=call, function=None)
    return Session(subject, session.inputs, session.wanted, session.seed)


def _otherwise_random(session: Session) -> Session:
    """Return the session with other random draws, as autocast may bring about."""
    other = copy.copy(session)
    other.seed += 1
    return other


def _pass(session: Session, move: Move) -> Pass:
    def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
        rng = generator(session.seed, Stream.AUTOCAST)
        return [
            torch.randn(out.shape, generator=rng, dtype=torch.float32).to(LOW).to(out)
            for out in outputs
        ]

    done = both_ways(session, cotangents, move)
    return replace(done, outputs=tuple(map(wide, done.outputs)), grads=each(wide, done.grads))


def _change(one: Pass, other: Pass) -> float:
    """Return by what fraction of their size results differ; inf where they are not comparable."""
    values, others = (*one.outputs, *one.grads), (*other.outputs, *other.grads)
    if not alike(values, others):
        return torch.inf
    sizes = zip(peaks(each(distance, values, others)), peaks(others), strict=True)
    return max((apart / size for apart, size in sizes if size), default=0.0)
