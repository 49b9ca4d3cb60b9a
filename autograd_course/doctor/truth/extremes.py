"""Put what the reference gives beside the calls far from the example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence, Extreme
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.truth.declared import Declared, Reference
from autograd_course.doctor.truth.rounding import Values, distance, each, finite


def at_extremes(
    evidence: Evidence, reference: Reference, seed: int, *, gradients: bool
) -> tuple[Extreme, ...]:
    """Return the calls with the reference's results; its ``gradients`` only where they are ours."""
    asked = _Reference(reference, evidence, seed, gradients)
    return tuple(_answered(call, asked) for call in evidence.extremes)


def _answered(call: Extreme, reference: _Reference) -> Extreme:
    """Return a masked call with what is right, a coarse one with what the reference loses too."""
    if call.masked is not None:
        takes_masks = reference.takes_masks(call.masked)
        return replace(call, right=reference.at(call)) if takes_masks else call
    right = reference.at(call) if call.noise else ()
    in_single = reference.at(call, Tensor.float) if right else ()
    if not in_single:
        return replace(call, right=right)
    own = each(distance, in_single, right)
    noise = tuple(
        n if n is None or o is None else torch.maximum(n, o)
        for n, o in zip(call.noise, own, strict=True)
    )
    return replace(call, right=right, noise=noise)


@dataclass(frozen=True)
class _Reference:
    call: Reference
    evidence: Evidence
    seed: int
    gradients: bool

    def at(self, call: Extreme, move: Callable[[Tensor], Tensor] = torch.clone) -> Values:
        """Return outputs and gradients; ``()`` where it raises or has other shapes."""
        inputs = tuple(move(v) if is_float(v) else v for v in call.inputs)
        try:
            declared = Declared(self.call, replace(self.evidence, inputs=inputs), self.seed)
            grads = declared.gradients([move(g) for g in call.grad_outputs])
        except Exception:  # the caller's own code may raise anything, far from the example
            return ()
        outputs = (out.detach() for out in declared.floats)
        right: Values = (*outputs, *(grads if self.gradients else [None for _ in grads]))
        return right if _fits(right, call.double) else ()

    def takes_masks(self, position: int) -> bool:
        """Whether its outputs stay finite with one element of an input at -inf."""
        inputs = list(self.evidence.inputs)
        masked = inputs[position].clone()
        masked[(0,) * masked.dim()] = -torch.inf
        inputs[position] = masked
        try:
            declared = Declared(self.call, replace(self.evidence, inputs=tuple(inputs)), self.seed)
        except DoctorError:
            return False
        return finite(tuple(declared.floats))


def _fits(right: Values, mine: Values) -> bool:
    return len(right) == len(mine) and all(
        r is None or m is None or r.shape == m.shape for r, m in zip(right, mine, strict=True)
    )
