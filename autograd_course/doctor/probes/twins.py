"""Put two passes side by side that must agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from autograd_course.doctor.calls import is_float
from autograd_course.doctor.evidence import Evidence, Pull, Twin
from autograd_course.doctor.mismatch import size
from autograd_course.doctor.passes import Pass

CANCELLATION = 1e-12  # of grad_output times forward's typical slope: float64's rounding, and room


def twin(
    evidence: Evidence,
    kind: str,
    how: str,
    came: Pass,
    should: Pass,
    *,
    wanted: Sequence[int] | None = None,
    tolerance: float = 1e-9,
) -> Twin:
    """Return the twin of a pass done the other way and the plain pass; ``wanted`` if not all."""
    if came.failure:
        return Twin(kind, how, failure=came.failure, stage=came.stage)
    positions = evidence.wanted if wanted is None else wanted
    names = (*output_names(len(came.outputs)), *(gradient_of(evidence, i) for i in positions))
    pair = _values(came), _values(should)
    floor = 0.0 if all(map(_identical, *pair)) else _cancellation(evidence)
    return Twin(kind, how, names, *pair, tolerance, floor=floor)


def output_names(count: int) -> Iterator[str]:
    """Yield what to call each of a call's floating outputs."""
    yield from (["the output"] if count == 1 else (f"output {k}" for k in range(count)))


def gradient_of(evidence: Evidence, position: int) -> str:
    """Return what to call the gradient of an input."""
    return f"the gradient of {evidence.name(position)}"


def _values(done: Pass) -> tuple[Tensor | None, ...]:
    return (*done.outputs, *done.grads)


def _identical(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _cancellation(evidence: Evidence) -> float:
    """Return how large a gradient may come out where the true one is zero: terms cancel."""
    sent = evidence.pulls.get("random", Pull(())).grad_outputs
    outputs = (out for out in evidence.forward.outputs if is_float(out))
    upstream, rise, run = (
        max((size(t) for t in tensors if t is not None), default=0.0)
        for tensors in (sent, outputs, (evidence.inputs[i] for i in evidence.wanted))
    )
    return CANCELLATION * upstream * max(1.0, rise / run if run else 1.0)
