"""What comes of the tensors that forward reaches besides its arguments?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.cases import in_double
from autograd_course.doctor.comparing.closeness import size
from autograd_course.doctor.evidence import Captured, Evidence, Failure
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.passes import copies, gradients
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.truth.differences import flat, slopes
from autograd_course.doctor.world.held import Held
from autograd_course.doctor.world.randomness import Stream, generator


def captured(session: Session, evidence: Evidence) -> Evidence:
    """Look which tensors a Function takes by closure, list or module, and which get a gradient."""
    subject = session.subject
    if subject.function is None:  # what a callable uses without a gradient, it may have detached
        return evidence
    passed = list(subject.passed.values())
    asking = [held for held in subject.around.held if held.asks and held not in passed]
    if not asking:
        return evidence
    lonely = _without_gradient(session, evidence, asking)
    return replace(evidence, captured=tuple(_moved(session, evidence, held) for held in lonely))


def _without_gradient(session: Session, evidence: Evidence, asking: Sequence[Held]) -> list[Held]:
    """Return those that a backward pass brings no gradient: not here, and not on its own either."""
    reached: set[str] = set()  # by a backward that is called inside of backward

    def note(name: str) -> Any:
        return lambda grad: reached.add(name)

    def passes() -> tuple[Tensor | None, ...]:
        run = session.run()
        run.leaves.extend(held.tensor for held in asking)
        return gradients(run, copies(evidence.pulls["random"].grad_outputs))

    hooks = [held.tensor.register_hook(note(held.name)) for held in asking]
    grads = attempt(passes)
    for hook in hooks:
        hook.remove()
    if isinstance(grads, Failure):
        return []
    own = grads[-len(asking) :]
    return [
        held
        for held, grad in zip(asking, own, strict=True)
        if grad is None and held.name not in reached
    ]


def _moved(session: Session, evidence: Evidence, held: Held) -> Captured:
    """Differentiate the outputs by a captured tensor, along random directions."""

    def values(moved: Sequence[Any]) -> Tensor:
        with held.instead(moved[0]), torch.no_grad():
            run = attempt(session.run)
        if isinstance(run, Failure) or len(run.tensors) != len(asks):
            return nowhere
        found = flat([output for output, asked in zip(run.tensors, asks, strict=True) if asked])
        return found if found.numel() == nowhere.numel() else nowhere

    asks = evidence.forward.requires_grad
    outputs = zip(evidence.forward.outputs, asks, strict=True)
    nowhere = torch.full_like(flat([output for output, asked in outputs if asked]), torch.nan)
    value = in_double(held.data)
    found = slopes(values, [value], (0,), generator(session.seed, Stream.CAPTURED))
    # Where an output has a kink or a jump beside this point, its difference estimates no slope.
    sure = found.matrix.abs() > 10 * found.error
    return Captured(held.name, size(found.matrix[sure]))
