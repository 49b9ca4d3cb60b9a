"""Which outputs does autograd take for views, though they share no memory with an input?"""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.evidence import Evidence, Failure
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.session import Session


def own_views(session: Session, evidence: Evidence) -> Evidence:
    """Return the evidence with the outputs that are views of what a Function's forward made."""
    run = attempt(session.run)
    if isinstance(run, Failure) or not evidence.forward.whole:
        return evidence
    shared = {output for output, _ in evidence.forward.views}
    views = (i for i, out in enumerate(run.tensors) if out.requires_grad and out._is_view())
    return replace(evidence, own_views=tuple(i for i in views if i not in shared))
