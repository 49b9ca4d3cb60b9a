"""One call in float32 and in float64 on the same numbers: only the arithmetic differs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence, Extreme
from autograd_course.doctor.probes.twins import output_names
from autograd_course.doctor.running.calls import is_float, passes_within
from autograd_course.doctor.running.passes import both_ways
from autograd_course.doctor.running.session import Move, Session, stay
from autograd_course.doctor.truth.rounding import EPS, Values, alike, each, wide
from autograd_course.doctor.world.randomness import Stream, generator

PATIENCE = 1.0  # seconds for one pass

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Precisions:
    """Makes a session's call, forward and backward, in either precision; no complex inputs.

    The results are ``None`` where the call raises or takes long.
    """

    session: Session

    def single(self, inputs: Inputs) -> Values | None:
        """Return what float32 gives."""
        return self._values(self.session, lambda tensor: tensor.float(), inputs)

    def double(self, inputs: Inputs) -> Values | None:
        """Return what float64 gives."""
        return self._values(self.session, stay, inputs)

    def both(self, inputs: Inputs) -> tuple[Values, Values] | None:
        """Return what float32 and what float64 gives, if it is alike in shape."""
        single, double = self.single(inputs), self.double(inputs)
        if single is None or double is None or not alike(single, double):
            return None
        return single, double

    def rounded_once(self, inputs: Inputs, draw: int) -> Values | None:
        """Return what float64 gives with one rounding error on every number.

        Each draw is made under a seed of its own: what a random Function draws otherwise in float32
        is no loss of precision.
        """
        session = copy.copy(self.session)
        session.seed += draw
        rng = generator(session.seed, Stream.SHORT_INPUTS)
        return self._values(session, stay, jittered(inputs, EPS, rng), rng)

    def extreme(self, evidence: Evidence, how: str, inputs: Inputs, *both: Values) -> Extreme:
        """Return what came in float32 and in float64 as evidence."""
        double = both[-1]
        outputs = [value for value in double[: -len(evidence.wanted)] if value is not None]
        gradients = (evidence.gradient_name(position) for position in evidence.wanted)
        return Extreme(
            how=how,
            names=(*output_names(len(outputs)), *gradients),
            inputs=inputs,
            grad_outputs=tuple(self._cotangents(outputs)),
            single=both[0],
            double=double,
        )

    def _values(
        self, session: Session, move: Move, inputs: Inputs, rng: torch.Generator | None = None
    ) -> Values | None:
        def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
            gs = self._cotangents(outputs)
            return gs if rng is None else [_moved(g, EPS, rng) for g in gs]

        try:
            with passes_within(PATIENCE):
                done = both_ways(session, cotangents, move, inputs=inputs)
        except DoctorError:  # on such numbers a solver may take long, or for ever: no verdict
            return None
        return None if done.failure else each(wide, (*done.outputs, *done.grads))

    def _cotangents(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Draw what float32 can hold, the same for float32 outputs and for float64 ones."""
        rng = generator(self.session.seed, Stream.SHORT_COTANGENTS)
        return [
            torch.randn(out.shape, generator=rng, dtype=torch.float32).to(out) for out in outputs
        ]


def as_single_holds(inputs: Sequence[Any]) -> Inputs:
    """Return the arguments rounded to what float32 can hold, floating tensors still in float64."""
    return tuple(value.float().double() if is_float(value) else value for value in inputs)


def jittered(inputs: Inputs, by: float, rng: torch.Generator) -> Inputs:
    """Return the arguments with every floating number moved by a fraction of it, up or down."""
    return as_single_holds([_moved(v, by, rng) if is_float(v) else v for v in inputs])


def _moved(tensor: Tensor, by: float, rng: torch.Generator) -> Tensor:
    up = torch.rand(tensor.shape, generator=rng, dtype=torch.float64).to(tensor.device) < 0.5
    return tensor * torch.where(up, 1 + by, 1 - by).to(tensor.dtype)
