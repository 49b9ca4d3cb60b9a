"""Does a backward that runs forward again change a module's state a second time?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.running.calls import attempt, same_bytes
from autograd_course.doctor.running.passes import copies, gradients
from autograd_course.doctor.running.session import Session


def recomputation(session: Session, evidence: Evidence) -> Evidence:
    """Look which of the buffers that forward advances are advanced by backward once more."""
    around = session.subject.around
    if not around.buffers:
        return evidence
    around.begin(session.inputs, session.subject.passed)
    at_first = _copied(around.buffers)
    run = attempt(session.run)
    if isinstance(run, Failure):
        return evidence
    forth = _copied(around.buffers)
    attempt(lambda: gradients(run, copies(evidence.pulls["random"].grad_outputs)))
    back = _copied(around.buffers)
    twice = [n for n in at_first if _differ(at_first, forth, n) and _differ(forth, back, n)]
    if not twice:
        return evidence
    came, should = (tuple(values[name] for name in twice) for values in (back, forth))
    found = Twin("recomputed", "in backward", tuple(twice), came, should)
    return replace(evidence, twins=(*evidence.twins, found))


def _copied(buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: buffer.detach().clone() for name, buffer in buffers.items()}


def _differ(one: Mapping[str, Tensor], other: Mapping[str, Tensor], name: str) -> bool:
    both = name in one and name in other
    return both and not same_bytes(one[name], other[name])
