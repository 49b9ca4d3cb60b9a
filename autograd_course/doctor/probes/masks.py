"""Which inputs require a gradient must not change the gradients of those that do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.probes.confirmed import TOLERANCE, Plain, asked
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.passes import Pass, both_ways
from autograd_course.doctor.running.session import Session


def frozen_input(session: Session, evidence: Evidence) -> Evidence:
    """Let some of the inputs require no gradient, and then none of them."""
    return asked(session, evidence, _frozen)


def _frozen(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    for how, kept in _masks(evidence):
        came = both_ways(session, plain.grad_outputs, inputs=plain.inputs, wanted=kept)
        if came.stage == "forward" and not evidence.is_function:
            continue  # a callable may differentiate by an input itself
        if came.stage == "forward" or len(came.outputs) == len(plain.done.outputs):
            grads = [plain.done.grads[evidence.wanted.index(i)] for i in kept]
            came, should = replace(came, outputs=()), Pass(grads=tuple(grads))
            yield twin(
                evidence, "frozen-input", how, came, should, wanted=kept, tolerance=TOLERANCE
            )
    if evidence.is_function:
        yield from _without_graph(session, evidence, plain)


def _masks(evidence: Evidence) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each input alone and, of three or more, all but one."""
    wanted = evidence.wanted
    if len(wanted) > 1:
        for i in wanted:
            yield f"when only `{evidence.name(i)}` requires grad", (i,)
    if len(wanted) > 2:
        for i in wanted:
            yield f"when `{evidence.name(i)}` does not require grad", [j for j in wanted if j != i]


def _without_graph(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    with torch.no_grad():
        run = attempt(lambda: session.run(inputs=plain.inputs))
    done = Pass(failure=run, stage="forward") if isinstance(run, Failure) else Pass(run.floats)
    if done.failure or len(done.outputs) == len(plain.done.outputs):
        should = Pass(plain.done.outputs)
        how = "under torch.no_grad()"
        yield twin(evidence, "frozen-input", how, done, should, wanted=(), tolerance=TOLERANCE)
