"""Hold torch.func.vmap over a stack of inputs against a loop over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor.cases import varied
from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.probes.confirmed import Plain, asked
from autograd_course.doctor.probes.definitions import definitions
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import as_tuple, attempt, fresh, is_float
from autograd_course.doctor.running.passes import Pass, both_ways, gradients
from autograd_course.doctor.running.session import Run, Session
from autograd_course.doctor.world.randomness import Stream, generator, reseed

SPREAD = 1.25
COTANGENTS = (1.0, -0.5, 2.0)  # the factors of grad_output for each slice
TOLERANCE = 1e-6  # a batched kernel may add up in another order, a rule may pass through float32


@dataclass(frozen=True)
class Layout:
    """Along which dimension each argument is stacked, ``None`` for one that all slices share.

    A raise is a fault only where the layout is one that any rule is to support.
    """

    how: str
    in_dims: tuple[int | None, ...]
    must_run: bool = True
    shared: bool = False


def vmapped(session: Session, evidence: Evidence) -> Evidence:
    """Put vmap beside a loop, where every Function in the graph says that it supports vmap."""
    functions = definitions(session)
    only_tensors = len(evidence.forward.outputs) == len(evidence.forward.kinds)
    if not functions or not all(map(opted_in, functions)) or not only_tensors:
        return evidence
    return asked(session, evidence, _question, draws=False)


def opted_in(function: type[Function]) -> bool:
    """Whether a Function brings a rule for vmap or asks for a generated one."""
    return bool(function.generate_vmap_rule) or function.vmap is not Function.vmap


def _question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    rng = generator(session.seed, Stream.SLICES)
    slices = [plain.inputs, *(varied(plain.inputs, SPREAD, rng) for _ in COTANGENTS[1:])]
    for layout in _layouts(evidence):
        should = attempt(lambda: _looped(session, plain, slices, layout))  # noqa: B023 - called here
        if isinstance(should, Failure) or should.failure:
            continue
        came = _stacked(session, plain, slices, layout, should)
        if not came.failure or (evidence.forward.whole and _is_fault(came.failure, layout)):
            yield twin(evidence, "vmap", layout.how, came, should, tolerance=TOLERANCE)


def _layouts(evidence: Evidence) -> Iterator[Layout]:
    floats = [is_float(value) for value in evidence.inputs]
    tensors = [isinstance(value, Tensor) for value in evidence.inputs]
    every = tuple(0 if float_ else None for float_ in floats)
    in_place = bool(evidence.forward.dirty)
    yield Layout("under `torch.func.vmap`", every, must_run=not in_place)
    if in_place:  # a shared tensor cannot be changed for each slice
        return
    for i, name in enumerate(evidence.parameters):
        if floats[i] and sum(floats) > 1:
            alone = tuple(0 if j == i else None for j in range(len(floats)))
            yield Layout(f"under `torch.func.vmap` over `{name}` alone", alone, shared=True)
    last = tuple(None if dim is None else -1 for dim in every)
    yield Layout("under `torch.func.vmap` with `in_dims=-1`", last)
    if tensors != floats:
        whole = tuple(0 if tensor else None for tensor in tensors)
        yield Layout("under `torch.func.vmap` over the integer inputs too", whole, must_run=False)


def _is_fault(failure: Failure, layout: Layout) -> bool:
    stated = layout.shared and failure.kind == "NotImplementedError"
    return layout.must_run and not stated


def _looped(
    session: Session, plain: Plain, slices: Sequence[Sequence[Any]], layout: Layout
) -> Pass:
    """Return the results of the slices, one call each, stacked as vmap stacks them."""
    done = []
    for factor, values in zip(COTANGENTS, slices, strict=True):
        triples = zip(values, plain.inputs, layout.in_dims, strict=True)
        inputs = [kept if dim is None else value for value, kept, dim in triples]
        done.append(both_ways(session, [factor * g for g in plain.grad_outputs], inputs=inputs))
    if failed := next((one for one in done if one.failure), None):
        return failed
    outputs = zip(*(one.outputs for one in done), strict=True)
    grads = zip(*(one.grads for one in done), strict=True)
    dims = [layout.in_dims[position] for position in session.wanted]
    return Pass(
        tuple(torch.stack(output) for output in outputs),
        tuple(_joined(grad, dim) for grad, dim in zip(grads, dims, strict=True)),
    )


def _joined(grads: Sequence[Tensor | None], dim: int | None) -> Tensor | None:
    """Stack the slices' gradients, or add them up for an input that the slices share."""
    given = [grad for grad in grads if grad is not None]
    if not given:
        return None
    whole = [torch.zeros_like(given[0]) if grad is None else grad for grad in grads]
    return torch.stack(whole).sum(0) if dim is None else torch.stack(whole, dim)


def _stacked(
    session: Session,
    plain: Plain,
    slices: Sequence[Sequence[Any]],
    layout: Layout,
    should: Pass,
) -> Pass:
    """Make one call under vmap, and one backward pass through it."""
    inputs = [
        plain.inputs[i] if dim is None else torch.stack([values[i] for values in slices], dim)
        for i, dim in enumerate(layout.in_dims)
    ]
    run = attempt(lambda: _run(session, inputs, layout))
    if isinstance(run, Failure):
        return Pass(failure=run, stage="forward")
    outputs = tuple(out.detach().clone() for out in run.floats)
    if [out.shape for out in outputs] != [out.shape for out in should.outputs]:
        return Pass(outputs, should.grads)  # the shape tells enough
    gs = [torch.stack([factor * g for factor in COTANGENTS]) for g in plain.grad_outputs]
    grads = attempt(lambda: gradients(run, gs))
    if isinstance(grads, Failure):
        return Pass(outputs, failure=grads, stage="backward")
    return Pass(outputs, grads)


def _run(session: Session, inputs: Sequence[Any], layout: Layout) -> Run:
    def floats(*args: Any) -> tuple[Any, ...]:
        return tuple(out for out in as_tuple(session.subject.call(*args)) if is_float(out))

    leaves, args = fresh(inputs, session.wanted)
    reseed(session.seed)
    session.subject.around.begin()
    batched = torch.func.vmap(floats, layout.in_dims, randomness="same")
    return Run(leaves, args, batched(*args))
