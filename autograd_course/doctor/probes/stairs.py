"""Whether float64 results move as smoothly as float64 can: a hair aside, and farther.

A Function that computes in float32 inside returns float64 numbers that stand still while the inputs
move by less than float32 sees, and then jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence, Stairs
from autograd_course.doctor.probes.precisions import PATIENCE
from autograd_course.doctor.probes.twins import output_names
from autograd_course.doctor.running.calls import is_float, passes_within
from autograd_course.doctor.running.passes import both_ways, drawn
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.truth.rounding import Values, alike
from autograd_course.doctor.world.randomness import Stream, generator

NEAR = 1e-9  # of each number: below a sixtieth of what float32 tells apart, far above float64
FAR = 1e-4  # still along a straight line, and hundreds of float32's steps


def stairs(session: Session, evidence: Evidence) -> Evidence:
    """Return the evidence with what inputs and cotangents that move together do to the results."""
    floats = [value for value in (*session.inputs, *evidence.forward.outputs) if is_float(value)]
    if any(tensor.dtype != torch.float64 for tensor in floats):
        return evidence
    found = [_values(session, by) for by in (0.0, NEAR, FAR)]
    here, near, far = (() if values is None else values for values in found)
    if not (here and alike(here, near) and alike(here, far)):
        return evidence
    outputs = output_names(len(here) - len(session.wanted))
    names = (*outputs, *(evidence.gradient_name(position) for position in session.wanted))
    return replace(evidence, stairs=Stairs(names, here, near, far, NEAR / FAR))


def _values(session: Session, by: float) -> Values | None:
    """Return outputs and gradients; ``None`` for one in another dtype, which is told elsewhere.

    Every number that is sent in moves by a fraction of its size, up or down, the same for each
    call.
    """
    rng = generator(session.seed, Stream.STAIRS)

    def moved(tensor: Tensor) -> Tensor:
        way = torch.rand(tensor.shape, generator=rng, dtype=torch.float64).sub(0.5).sign()
        return tensor * (1 + by * way).to(tensor.device)  # not where(…, 1 + by, …): in float32

    def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
        return [moved(g) for g in drawn(outputs, rng)]

    inputs = [moved(v) if i in session.wanted else v for i, v in enumerate(session.inputs)]
    try:
        with passes_within(PATIENCE):
            done = both_ways(session, cotangents, inputs=inputs)
    except DoctorError:  # a solver that takes long: no verdict
        return None
    if done.failure:
        return None
    return tuple(
        tensor if tensor is not None and tensor.dtype == torch.float64 else None
        for tensor in (*done.outputs, *done.grads)
    )
