"""Which custom Functions a call is made of, and what they say they support."""

from __future__ import annotations

from dataclasses import replace

from torch.autograd import Function

from autograd_course.doctor.evidence import Evidence, Failure
from autograd_course.doctor.running.calls import attempt, takes_ctx
from autograd_course.doctor.running.graph import custom_nodes
from autograd_course.doctor.running.session import Session


def definitions(session: Session) -> tuple[type[Function], ...]:
    """Return the custom Functions in the graph of one call, each once, sorted by name."""
    if session.subject.function is not None:
        return (session.subject.function,)
    run = attempt(session.run)
    if isinstance(run, Failure):
        return ()
    found = {node._forward_cls for node in custom_nodes(run.tensors)}
    return tuple(sorted(found, key=lambda function: function.__qualname__))


def old_style(session: Session, evidence: Evidence) -> Evidence:
    """Note the Functions whose forward takes ctx itself."""
    found = [f for f in definitions(session) if takes_ctx(f)]
    return replace(evidence, old_style=tuple(function.__name__ for function in found))
