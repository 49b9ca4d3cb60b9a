"""Compute rows of the Jacobian, and make calls with other shapes, numbers or arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.passes import both_ways, gradients
from autograd_doctor._execution.session import Run, Session
from autograd_doctor._numerics.finite_differences import (
    STEP,
    affordable,
    as_real,
    derivative,
    flat,
    moved_by,
)
from autograd_doctor._numerics.tensors import as_number, is_float, on_cpu
from autograd_doctor._probes.comparison import Plain, alike, jittered, plain_call
from autograd_doctor.evidence import RANDOM, Evidence, Failure, JacobianRows, Resized

# --------------------------------------------------------------------------------------------------
# Compute the Jacobian that backward implies, by passing one-hot cotangents to backward.
#
# The probe computes this Jacobian only if the gradient may be incorrect. The report shows it next
# to the Jacobian from finite differences.
# --------------------------------------------------------------------------------------------------

MOST_OF_AN_OUTPUT = 48
MOST_ROWS = 96  # fewer for large inputs


def rows(session: Session, evidence: Evidence) -> Evidence:
    """Compute the first rows of the Jacobian. Each row takes one backward pass."""
    if (
        not evidence.values.jacobian or evidence.values.cotangent_range
    ):  # backward may be nonlinear for one-hot cotangents
        return evidence
    run = attempt(session.run)
    if isinstance(run, Failure):
        return evidence
    entries = sum(as_real(leaf).numel() for leaf in run.leaves)
    most = affordable(MOST_ROWS, entries)
    index = torch.tensor(list(_first_elements(run))[:most], dtype=torch.long)
    found = attempt(lambda: [one_row(run, int(i)) for i in index])
    if isinstance(found, Failure) or not found:
        return evidence
    matrices = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
    return replace(evidence, values=replace(evidence.values, rows=JacobianRows(index, matrices)))


def _first_elements(run: Run) -> Iterator[int]:
    """Yield the Jacobian row numbers of the first elements of each output."""
    start = 0
    for output in run.floats:
        count = as_real(output).numel()
        yield from range(start, start + min(count, MOST_OF_AN_OUTPUT))
        start += count


def one_row(run: Run, i: int) -> list[Tensor]:
    """Return row ``i`` of the Jacobian as one flat, real gradient for each input.

    The cotangent is 1 at element ``i`` and 0 elsewhere. ``i`` is an index into the elements of all
    floating-point outputs, in which each complex element counts as two.
    """
    cotangents = [
        torch.zeros_like(out, memory_format=torch.contiguous_format) for out in run.floats
    ]
    for g in cotangents:
        real = as_real(g).view(-1)
        if 0 <= i < real.numel():
            real[i] = 1.0
        i -= real.numel()
    grads = gradients(run, cotangents, retain_graph=True)
    pairs = zip(run.leaves, grads, strict=True)
    return [flat([torch.zeros_like(leaf) if grad is None else grad]) for leaf, grad in pairs]


# --------------------------------------------------------------------------------------------------
# Make the same call with other lengths and numbers to test explanations of a constant factor.
#
# If a gradient is twice the expected gradient for a 4×5 input, there are several explanations, such
# as a factor of 2 in the formula or the square root of the length 4. For a 3×5 input, these two
# factors differ.
# --------------------------------------------------------------------------------------------------

MOST_LENGTHS = 4


def resized(session: Session, evidence: Evidence) -> Evidence:
    """Record the ratios of actual to expected gradients in calls with another length or number.

    This probe does nothing unless a gradient may be incorrect.
    """
    if not evidence.values.jacobian or evidence.values.cotangent_range:
        return evidence
    session = session.on_cpu()
    lengths = dict.fromkeys(
        length
        for value in session.inputs
        if isinstance(value, Tensor)
        for length in value.shape
        if length > 1
    )
    calls = [
        [with_other_length(value, length) for value in session.inputs]
        for length in list(lengths)[:MOST_LENGTHS]
    ]
    calls += [
        [_other_number(value) if i == position else value for i, value in enumerate(session.inputs)]
        for position, value in enumerate(session.inputs)
        if as_number(value) is not None
    ]
    found = (_resized(session, inputs) for inputs in calls)
    return replace(evidence, values=replace(evidence.values, resized=tuple(filter(None, found))))


def _other_number(value: Any) -> Any:
    return value + 1 if type(value) is int else 1.25 * value


def _resized(session: Session, inputs: Sequence[Any]) -> Resized | None:
    """Make the call with other inputs and return the ratios. Return ``None`` if the call fails."""
    rng = generator(session.seed, Stream.RESIZED)
    plain = plain_call(session, inputs, rng)
    if plain.done.failure:
        return None
    return Resized(
        shapes=tuple(tuple(v.shape) if isinstance(v, Tensor) else None for v in inputs),
        numbers=tuple(map(as_number, inputs)),
        output=tuple(plain.done.outputs[0].shape),
        ratios=tuple(_ratios(session, plain, rng)),
    )


def with_other_length(value: Any, length: int) -> Any:
    """Remove the last slice along each dim of this length.

    If the length is 2, append a copy of the first slice instead.
    """
    if not isinstance(value, Tensor):
        return value
    for dim in range(value.dim()):
        if value.shape[dim] == length > 2:
            value = value.narrow(dim, 0, length - 1)
        elif value.shape[dim] == length:
            value = torch.cat([value, value.narrow(dim, 0, 1)], dim)
    return value.contiguous()


def _ratios(session: Session, plain: Plain, rng: torch.Generator) -> Iterator[float | None]:
    """For each wanted input, yield the ratio of the actual to the expected gradient.

    First, project both gradients onto a random direction.
    """
    g = flat(plain.grad_outputs)
    center = flat(plain.done.outputs)
    for slot, position in enumerate(session.wanted):
        vector = _direction(plain.inputs[position], rng)
        truth = _slope(session, plain.inputs, position, vector, center, g)
        grad = plain.done.grads[slot]
        if grad is None or not truth:
            yield None
        else:
            yield float(as_real(grad).reshape(-1).double() @ vector) / truth


def _direction(value: Tensor, rng: torch.Generator) -> Tensor:
    real = as_real(value).reshape(-1)
    return torch.randn(real.shape, generator=rng, dtype=torch.float64).to(real.device)


def _slope(
    session: Session,
    inputs: Sequence[Any],
    position: int,
    vector: Tensor,
    center: Tensor,
    g: Tensor,
) -> float | None:
    """Return the expected gradient of one input, projected onto ``vector``.

    Return ``None`` if ``forward`` is not smooth along ``vector``. ``center`` holds the outputs, and
    ``g`` holds the cotangents.
    """

    def at(offset: float) -> Tensor:
        moved = moved_by(inputs, [position], [offset * vector])
        found = attempt(lambda: _outputs(session, moved))
        if isinstance(found, Failure) or found.numel() != center.numel():
            return torch.full_like(center, torch.nan)
        return found

    value, _, smooth = derivative(at, STEP, center)
    return float(value @ g) if smooth else None


def _outputs(session: Session, inputs: Sequence[Any]) -> Tensor:
    with torch.no_grad():
        return flat([out for out in session.call(inputs, watched=False) if is_float(out)])


# --------------------------------------------------------------------------------------------------
# Change one argument of the call, and find gradients that should change too but do not.
# --------------------------------------------------------------------------------------------------

CHANGED = 1e-3  # relative; the slopes of forward are known much more accurately


def unused(session: Session, evidence: Evidence) -> Evidence:
    """Find arguments that affect an expected gradient but not the gradient from ``backward``.

    This probe does nothing unless a gradient may be incorrect.
    """
    vjp = evidence.values.vjps.get(RANDOM)
    if not evidence.values.jacobian or evidence.values.cotangent_range or vjp is None:
        return evidence
    session = session.on_cpu()
    sent = [on_cpu(g) for g in vjp.grad_outputs if g is not None]
    if vjp.failure or len(sent) < len(vjp.grad_outputs):
        return evidence
    found: list[list[int]] = [[] for _ in session.wanted]
    for position in range(len(evidence.inputs)):
        for slot in _unchanged_by(session, evidence, sent, position):
            found[slot].append(position)
    return replace(evidence, values=replace(evidence.values, unused=tuple(map(tuple, found))))


def _unchanged_by(
    session: Session, evidence: Evidence, sent: Sequence[Tensor], position: int
) -> Iterator[int]:
    """Yield the inputs whose gradient should change when an argument changes, but does not."""
    rng = generator(session.seed, Stream.RESIZED)
    value = session.inputs[position]
    other = _other_number(value) if type(value) in (int, float) else jittered(value, rng)
    if other is value:
        return
    inputs = [other if i == position else it for i, it in enumerate(session.inputs)]
    done = both_ways(session, sent, inputs=inputs)
    before = [on_cpu(out) for out in evidence.forward.outputs if is_float(out)]
    if done.failure or [it.shape for it in done.outputs] != [it.shape for it in before]:
        return
    g = flat(sent)
    for slot, place in enumerate(session.wanted):
        old, new = on_cpu(evidence.values.vjps[RANDOM].grads[slot]), done.grads[slot]
        if old is None or not bool(old.any()) or not alike(old, new):
            continue
        vector = _direction(inputs[place], rng)
        here = _slope(session, session.inputs, place, vector, flat(before), g)
        there = _slope(session, inputs, place, vector, flat(done.outputs), g)
        if here is None or there is None:
            continue
        if abs(here - there) > CHANGED * max(abs(here), abs(there)):
            yield slot
