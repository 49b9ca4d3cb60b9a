"""Put two passes side by side that must agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from autograd_course.doctor.comparing.closeness import cancellation, identical
from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.running.passes import Pass


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
    if came.failure and came.failure.runs_in_own_dtype:
        return Twin(kind, how)
    if came.failure:
        return Twin(kind, how, failure=came.failure, stage=came.stage)
    positions = evidence.wanted if wanted is None else wanted
    names = (*output_names(len(came.outputs)), *(evidence.gradient_name(i) for i in positions))
    pair = _values(came), _values(should)
    floor = 0.0 if all(map(identical, *pair)) else cancellation(evidence)
    return Twin(kind, how, names, *pair, tolerance, floor=floor)


def output_names(count: int) -> Iterator[str]:
    """Yield what to call each of a call's floating outputs."""
    yield from (["the output"] if count == 1 else (f"output {k}" for k in range(count)))


def _values(done: Pass) -> tuple[Tensor | None, ...]:
    return (*done.outputs, *done.grads)
