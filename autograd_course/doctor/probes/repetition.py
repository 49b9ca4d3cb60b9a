"""Does the same call, made again, give the same? And the same backward?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import attempt, is_float, same_bytes
from autograd_course.doctor.running.passes import Pass, both_ways, copies, gradients
from autograd_course.doctor.running.session import Run, Session


def repetition(session: Session, evidence: Evidence) -> Evidence:
    """Make the same call again, in all the ways at once that must not matter.

    Only where something differs is each way tried alone, to find out which it was.
    """
    plain = _first_time(evidence)
    if _identical(_again(session, evidence, filled=True, redrawn=True), plain):
        return evidence
    ways = {
        "repeated": (REPEATED, _again(session, evidence)),
        "filled": (FILLED, _again(session, evidence, filled=True)),
        "redrawn": (REDRAWN, _again(session, evidence, redrawn=True)),
    }
    found = tuple(
        twin(evidence, kind, how, came, plain)
        for kind, (how, came) in ways.items()
        if _comparable(came, plain) and not _identical(came, plain)
    )
    return replace(evidence, twins=evidence.twins + found)


REPEATED = "from one call to the next, with the same arguments and seeds"
FILLED = "when torch.empty returns memory filled with nan"
REDRAWN = "when `backward` reuses them"


def second_backward(session: Session, evidence: Evidence) -> Evidence:
    """Send a second cotangent through a graph that a first one has gone through already."""
    first, second = evidence.pulls["other"], evidence.pulls["random"]

    def go_through(run: Run) -> None:
        attempt(lambda: gradients(run, copies(first.grad_outputs), retain_graph=True))

    came = both_ways(session, second.grad_outputs, between=go_through)
    found = _backward_twin(evidence, came)
    return replace(evidence, twins=(*evidence.twins, found))


def _backward_twin(evidence: Evidence, came: Pass) -> Twin:
    should = replace(_first_time(evidence), outputs=())
    how = "in a second backward pass through the same graph"
    return twin(evidence, "second backward", how, replace(came, outputs=()), should)


def _first_time(evidence: Evidence) -> Pass:
    """Return what the call gave when it was made first."""
    outputs = tuple(output for output in evidence.forward.outputs if is_float(output))
    return Pass(outputs, evidence.pulls["random"].grads)


def _again(
    session: Session, evidence: Evidence, *, filled: bool = False, redrawn: bool = False
) -> Pass:
    def between(run: Run) -> None:
        if redrawn:
            session.redraw()

    with memory_filled(filled):
        return both_ways(session, evidence.pulls["random"].grad_outputs, between=between)


@contextmanager
def memory_filled(wanted: bool = True) -> Iterator[None]:
    """Let new memory hold nan where PyTorch would leave it as it finds it."""
    mode = torch.get_deterministic_debug_mode()
    deterministic: Any = torch.utils.deterministic
    fill = deterministic.fill_uninitialized_memory
    if wanted:
        torch.set_deterministic_debug_mode("warn")
        deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        deterministic.fill_uninitialized_memory = fill


def _comparable(one: Pass, other: Pass) -> bool:
    return one.failure is None and len(one.outputs) == len(other.outputs)


def _identical(one: Pass, other: Pass) -> bool:
    """Whether two passes gave the same to the last bit."""
    return _comparable(one, other) and all(
        a is b if a is None or b is None else same_bytes(a, b)
        for a, b in zip((*one.outputs, *one.grads), (*other.outputs, *other.grads), strict=True)
    )
