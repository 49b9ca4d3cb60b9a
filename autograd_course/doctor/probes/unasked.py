"""Is a gradient computed that nobody asks for?

With one input frozen, backward is called directly while its operations are recorded. An operation
that leads to the gradient of that input, and to no other, is wasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Failure, Unasked
from autograd_course.doctor.running.calls import attempt, is_float
from autograd_course.doctor.running.direct import handed_over
from autograd_course.doctor.running.graph import custom_nodes
from autograd_course.doctor.running.operations import Recording
from autograd_course.doctor.running.session import Session

MOST_INPUTS = 8


@dataclass(frozen=True)
class Backward:
    """One direct call of backward: what it ran, and which operations lead to which gradient."""

    names: tuple[str, ...]
    leading: tuple[set[int], ...]  # in the order of the arguments

    def toward(self, position: int) -> set[int]:
        """Return the places of the operations that lead to an argument's gradient."""
        return self.leading[position] if position < len(self.leading) else set()


def unasked(session: Session, evidence: Evidence) -> Evidence:
    """Look for operations that only serve a gradient that nobody asked for."""
    floating = [position for position, value in enumerate(session.inputs) if is_float(value)]
    if not evidence.forward.whole or not 2 <= len(floating) <= MOST_INPUTS:
        return evidence
    gs = [g for g in evidence.pulls["random"].grad_outputs if g is not None]
    everything = _backward(session, gs, session.wanted)
    if everything is None:
        return evidence
    return replace(evidence, unasked=tuple(_wasted(session, gs, floating, everything)))


def _wasted(
    session: Session, gs: Sequence[Tensor], floating: Sequence[int], everything: Backward
) -> Iterator[Unasked]:
    for frozen in floating:
        asking = [position for position in session.wanted if position != frozen]
        backward = _backward(session, gs, asking) if asking else None
        if backward is None:
            continue
        # A gradient thrown away at the end is known by its place among the very same operations.
        same = backward.names == everything.names
        needed = set().union(*map(backward.toward, asking))
        wasted = (everything if same else backward).toward(frozen) - needed
        if wasted:
            yield Unasked(frozen, tuple(backward.names[place] for place in sorted(wasted)))


def _backward(session: Session, gs: Sequence[Tensor], wanted: Sequence[int]) -> Backward | None:
    """Call backward directly and record it, ``None`` where that fails."""
    run = attempt(lambda: session.run(wanted=wanted))
    if isinstance(run, Failure):
        return None
    node = next(custom_nodes(run.tensors, depth=1), None)
    if node is None:
        return None
    given = list(handed_over(run.returned, gs))
    recording = Recording()
    with torch.no_grad(), recording:
        got = attempt(lambda: node.apply(*given))
    if isinstance(got, Failure):
        return None
    grads = got if isinstance(got, tuple) else (got,)
    return Backward(recording.names, tuple(map(recording.leading_to, grads)))
