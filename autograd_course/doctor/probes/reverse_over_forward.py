"""Differentiate jvp's tangent by the inputs, and hold it against backward, differentiated.

⟨g, J v⟩ and ⟨Jᵀ g, v⟩ are the same function of the inputs, so their derivatives are the same. The
second one's is right, as second-order evidence says; the first one goes through the graph of jvp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.probes.confirmed import TOLERANCE, Plain, asked
from autograd_course.doctor.probes.definitions import definitions
from autograd_course.doctor.probes.forward_mode import drawn_tangents, duals
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.passes import gradients
from autograd_course.doctor.running.session import Run, Session
from autograd_course.doctor.truth.differences import as_real


def reverse_over_forward(session: Session, evidence: Evidence) -> Evidence:
    """Put one beside the other, where jvp is right and backward can be differentiated."""
    functions = definitions(session)
    if not functions or any(function.jvp is Function.jvp for function in functions):
        return evidence
    return asked(session, evidence, _question) if _twice(evidence) else evidence


def _twice(evidence: Evidence) -> bool:
    second = evidence.second_order
    return bool(second and not second.failure and not any(d.wrong for d in second.derivatives))


def _question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    tangents = drawn_tangents(session, plain.inputs)
    should = attempt(lambda: _backward_differentiated(session, plain, tangents))
    came = attempt(lambda: _tangent_differentiated(session, plain, tangents))
    if isinstance(came, Failure) or isinstance(should, Failure):  # whoever needs it hears of it
        return
    for position, one, other in zip(session.wanted, came, should, strict=True):
        name = evidence.name(position)
        yield Twin("tangent graph", f"by {name}", (name,), (one,), (other,), TOLERANCE)


def _backward_differentiated(
    session: Session, plain: Plain, tangents: dict[int, Tensor]
) -> Sequence[Tensor | None]:
    run = session.run(inputs=plain.inputs)
    grads = gradients(run, plain.grad_outputs, create_graph=True)
    return _differentiated(run, grads, list(tangents.values()))


def _tangent_differentiated(
    session: Session, plain: Plain, tangents: dict[int, Tensor]
) -> Sequence[Tensor | None]:
    with forward_ad.dual_level():
        run = session.run(inputs=plain.inputs, arrange=duals(tangents))
        pushed = [forward_ad.unpack_dual(out).tangent for out in run.floats]
        return _differentiated(run, pushed, plain.grad_outputs)


def _differentiated(
    run: Run, some: Sequence[Tensor | None], others: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Differentiate Σ ⟨one, other⟩ by the inputs; ``None`` where no graph leads there."""
    pairs = zip(some, others, strict=True)
    terms = [(as_real(one) * as_real(other)).sum() for one, other in pairs if one is not None]
    terms = [term for term in terms if term.requires_grad]
    if not terms:
        return [None for _ in run.leaves]
    total = torch.stack(terms).sum()
    found = torch.autograd.grad(total, run.leaves, allow_unused=True)
    return [None if grad is None else grad.detach() for grad in found]
