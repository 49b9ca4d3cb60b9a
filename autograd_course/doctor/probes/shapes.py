"""Inputs without an axis, for a Function that treats every element by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.probes.confirmed import TOLERANCE, Plain, all_alike, asked
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.passes import Pass, both_ways
from autograd_course.doctor.running.session import Session


def zero_dim(session: Session, evidence: Evidence) -> Evidence:
    """Pass single elements of the inputs as 0-dim tensors, and as a vector."""
    return asked(session, evidence, _single, draws=False) if _one_shape(evidence) else evidence


def _one_shape(evidence: Evidence) -> bool:
    """Whether all tensors of the call have one shape, which has axes and elements."""
    given = (value for value in evidence.inputs if isinstance(value, Tensor))
    shapes = {tensor.shape for tensor in (*given, *evidence.forward.outputs)}
    shape = shapes.pop()
    return not shapes and bool(shape) and shape.numel() > 0


def _single(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    both = [-1, 0] if plain.done.outputs[0].numel() > 1 else [0]
    vector = _on_elements(session, plain, both)
    first, last = (_on_elements(session, plain, place) for place in (0, -1))
    if vector is None or vector.failure or first is None or last is None:
        return  # not element by element, or forward takes no 0-dim tensors
    should = Pass(grads=tuple(g if g is None else g[-1] for g in vector.grads))
    came, how = replace(first, outputs=()), "when the inputs are 0-dim"
    yield twin(evidence, "zero-dim", how, came, should, tolerance=TOLERANCE)


def _on_elements(session: Session, plain: Plain, places: list[int] | int) -> Pass | None:
    """Pass some elements alone, ``None`` unless forward gives them what it gave them in company."""

    def of(values: Sequence[Any]) -> list[Any]:
        return [v.reshape(-1)[places] if isinstance(v, Tensor) else v for v in values]

    done = both_ways(session, of(plain.grad_outputs), inputs=of(plain.inputs))
    return done if all_alike(done.outputs, of(plain.done.outputs)) else None
