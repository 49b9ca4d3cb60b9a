"""Paired runs: a call is made in two ways that must give the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import attempt, fresh, takes_ctx
from autograd_doctor._execution.isolation import Stream, generator, random_state, reseed
from autograd_doctor._execution.operations import OperationRecorder, custom_nodes, memory
from autograd_doctor._execution.passes import Pass, both_ways, copies, gradients, sample_cotangents
from autograd_doctor._execution.saved_tensors import SavedTensorSwapper, derived_twice
from autograd_doctor._execution.session import Move, Run, Session, stay
from autograd_doctor._numerics.closeness import cancellation, identical, same, size
from autograd_doctor._numerics.rounding import Values
from autograd_doctor._numerics.structure import structure_of
from autograd_doctor._numerics.tensors import as_tuple, is_float, on_cpu
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import (
    PLAIN_AUTOGRAD,
    RANDOM,
    Comparison,
    Cost,
    Evidence,
    Failure,
)

# --------------------------------------------------------------------------------------------------
# Compare two passes that must agree.
# --------------------------------------------------------------------------------------------------


def compare(
    evidence: Evidence,
    kind: str,
    how: str,
    actual: Pass,
    expected: Pass,
    *,
    wanted: Sequence[int] | None = None,
    tolerance: float = 1e-9,
) -> Comparison:
    """Compare the pass of a variant with the plain pass, or only the ``wanted`` parts."""
    if actual.failure and actual.failure.runs_in_own_dtype:
        return Comparison(kind, how)
    if actual.failure:
        return Comparison(kind, how, failure=actual.failure, stage=actual.stage)
    positions = evidence.wanted if wanted is None else wanted
    names = (*output_names(len(actual.outputs)), *(evidence.gradient_name(i) for i in positions))
    pair = _values(actual), _values(expected)
    if evidence.values.inexact:
        tolerance = max(tolerance, INEXACT)
    floor = 0.0 if all(map(identical, *pair)) else cancellation(evidence)
    return Comparison(kind, how, names, *pair, tolerance, floor=floor)


def output_names(count: int) -> Iterator[str]:
    """Yield a name for each floating-point output of a call."""
    yield from (["the output"] if count == 1 else (f"output {k}" for k in range(count)))


def _values(done: Pass) -> tuple[Tensor | None, ...]:
    return (*done.outputs, *done.grads)


# --------------------------------------------------------------------------------------------------
# Ask a question about the example. If the answer is a difference, repeat the question on other
# values.
#
# If an example contains ties, zeros or equal entries, a correct Function may give different
# results. A maximum may choose another of its equal elements if the memory layout changes.
# Subtracting the mean over the batch has no visible effect if all rows are equal. Such a difference
# disappears on values without ties, but a difference that a mistake causes does not.
# --------------------------------------------------------------------------------------------------

INEXACT = 0.05  # for a solver that stops at a tolerance
TOLERANCE = 1e-6  # a wrong layout, slice or mask is far off, unlike another order of summation
# the relative step of an element: large enough to break ties, and small enough to stay in most
# domains
SPREAD = 0.05


@dataclass(frozen=True)
class Plain:
    """The plain call: its inputs, cotangents and results."""

    inputs: tuple[Any, ...]
    grad_outputs: tuple[Tensor, ...]
    done: Pass


Question = Callable[[Session, Evidence, Plain], Iterable[Comparison]]


def asked(
    session: Session,
    evidence: Evidence,
    question: Question,
    *,
    draws: bool = True,
    resizes: bool = False,
) -> Evidence:
    """Add the comparisons for a question, unless only the example shows a difference.

    Pass ``draws=False`` if the second call may draw its random numbers for different elements. The
    question then skips subjects whose results depend on random draws. Pass ``resizes=True`` if the
    question makes calls with other shapes. It then makes them on the CPU.
    """
    ask = _lasting_on_cpu if resizes and session.on_cpu() is not session else _lasting
    try:
        comparisons = ask(session, evidence, on_example(evidence), question, draws)
    except CannotDiagnoseError:  # the second call does not finish, so it gives no evidence
        comparisons = ()
    return replace(
        evidence,
        variants=replace(
            evidence.variants, comparisons=(*evidence.variants.comparisons, *comparisons)
        ),
    )


def _lasting_on_cpu(
    session: Session, evidence: Evidence, plain: Plain, question: Question, draws: bool
) -> tuple[Comparison, ...]:
    """Ask on the CPU, and return the comparisons on the device of the example."""
    device, session = plain.done.outputs[0].device, session.on_cpu()
    sent = tuple(map(on_cpu, plain.grad_outputs))
    plain = Plain(session.inputs, sent, both_ways(session, copies(sent), inputs=session.inputs))
    if plain.done.failure:  # the Function needs the device
        return ()

    def back(values: Values) -> Values:
        return tuple(value if value is None else value.to(device) for value in values)

    return tuple(
        replace(it, actual=back(it.actual), expected=back(it.expected))
        for it in _lasting(session, evidence, plain, question, draws)
    )


def _lasting(
    session: Session, evidence: Evidence, plain: Plain, question: Question, draws: bool
) -> tuple[Comparison, ...]:
    comparisons = tuple(question(session, evidence, plain))
    if all(map(agrees, comparisons)):
        return comparisons
    there = _elsewhere(session, draws)
    again = question(session, evidence, there) if there else ()
    differing = {comparison.how for comparison in again if not agrees(comparison)}
    return tuple(
        comparison
        for comparison in comparisons
        if agrees(comparison) or comparison.how in differing
    )


def on_example(evidence: Evidence) -> Plain:
    """Return the plain call on the example, which the evidence already contains."""
    vjp = evidence.values.vjps[RANDOM]
    outputs = tuple(out for out in evidence.forward.outputs if is_float(out))
    sent = tuple(g for g in vjp.grad_outputs if g is not None)
    return Plain(evidence.inputs, sent, Pass(outputs, vjp.grads))


def plain_call(session: Session, inputs: Sequence[Any], rng: torch.Generator) -> Plain:
    """Make the plain call on other inputs, with new cotangents."""
    sent: list[Tensor] = []

    def cotangents(outputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
        sent.extend(sample_cotangents(outputs, rng))
        return copies(sent)

    done = both_ways(session, cotangents, inputs=inputs)
    return Plain(tuple(inputs), tuple(sent), done)


def jittered(value: Any, rng: torch.Generator) -> Any:
    """Move every element of a floating-point tensor away from zero by a small random step.

    Zeros move upwards. Signs and structures stay the same.
    """
    if not is_float(value) or not value.numel():
        return value
    if (structure := structure_of(value)) is not None:
        return structure.draw(rng)
    step = SPREAD * torch.rand(value.shape, generator=rng, dtype=torch.float64).to(value.device)
    return torch.where(value == 0, step * (size(value) or 1.0), value * (1 + step))


def agrees(comparison: Comparison) -> bool:
    """Whether both calls gave the same results, up to rounding."""
    pairs = zip(comparison.actual, comparison.expected, strict=True)
    return comparison.failure is None and all(
        alike(one, other, comparison.floor) for one, other in pairs
    )


def all_alike(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """Whether two calls gave the same number of results, and each pair is equal up to rounding."""
    return len(some) == len(others) and all(map(alike, some, others))


def alike(one: Tensor | None, other: Tensor | None, floor: float = 0.0) -> bool:
    """Whether two results have the same shape and values. A missing gradient counts as zeros."""
    if one is None or other is None:
        rest = other if one is None else one
        return rest is None or not bool((rest.abs() > floor).any())
    if one.shape != other.shape:
        return False
    near = torch.equal(one, other) or same(one, other)
    return near or bool(((one - other).abs() <= floor).all())


def _elsewhere(session: Session, draws: bool) -> Plain | None:
    """Return the plain call on jittered inputs, or ``None`` if it fails or is not repeatable."""
    rng = generator(session.seed, Stream.ELSEWHERE)
    there = plain_call(session, [jittered(value, rng) for value in session.inputs], rng)
    if there.done.failure or not (draws or _drawn_on(session, there)):
        return None
    reseed(session.seed)
    undrawn = random_state()
    again = both_ways(session, there.grad_outputs, inputs=there.inputs)
    if not draws and random_state() != undrawn:
        return None
    same_again = all_alike(again.outputs, there.done.outputs)
    return there if same_again and all_alike(again.grads, there.done.grads) else None


def _drawn_on(session: Session, plain: Plain) -> bool:
    """Whether ``forward`` returns the same result when its random state is not reset."""
    _, args = fresh(plain.inputs, session.wanted)
    returned = attempt(lambda: as_tuple(session.subject.call(*args)))
    if isinstance(returned, Failure):
        return False
    return all_alike([out for out in returned if is_float(out)], plain.done.outputs)


# --------------------------------------------------------------------------------------------------
# The custom Functions in a call, and the features that they claim to support.
# --------------------------------------------------------------------------------------------------


def definitions(session: Session) -> tuple[type[Function], ...]:
    """Return the custom Functions in the graph of one call, without duplicates, sorted by name."""
    if session.subject.function is not None:
        return (session.subject.function,)
    run = attempt(session.run)
    if isinstance(run, Failure):
        return ()
    found = {node._forward_cls for node in custom_nodes(run.tensors)}
    return tuple(sorted(found, key=lambda function: function.__qualname__))


def old_style(session: Session, evidence: Evidence) -> Evidence:
    """Record the Functions whose ``forward`` takes ``ctx``."""
    found = [f for f in definitions(session) if takes_ctx(f)]
    return replace(
        evidence,
        contract=replace(
            evidence.contract, old_style=tuple(function.__name__ for function in found)
        ),
    )


# --------------------------------------------------------------------------------------------------
# Is a Function needed, or does autograd give the same result on the same forward?
#
# The user's own forward runs as ordinary code, with a stand-in for ctx that does nothing. Both
# calls must give the same outputs, gradients and second derivatives, even where a formula overflows
# or has a kink. Then their costs are compared.
# --------------------------------------------------------------------------------------------------

Cotangents = Sequence[Tensor | None]


class StandIn:
    """A stand-in for ctx that accepts every call from ``forward`` and ignores it."""

    saved_tensors = ()

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        """Do nothing, because autograd saves the tensors it needs."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward
    set_materialize_grads = save_for_backward


def plain(session: Session, evidence: Evidence) -> Evidence:
    """Compare the Function with autograd on its ``forward``."""
    function = session.subject.function
    if function is None or not evidence.forward.whole or _has_other_reasons(function):
        return evidence
    if not any(output.numel() for output in evidence.forward.outputs):
        return evidence
    subject = replace(session.subject, call=_as_ordinary_code(function), function=None)
    ordinary = Session(subject, session.inputs, session.wanted, session.seed)
    gs = evidence.values.vjps[RANDOM].grad_outputs
    mine, other = (attempt(partial(_cost, one, gs)) for one in (session, ordinary))
    if isinstance(mine, Failure) or isinstance(other, Failure):
        return evidence
    costs = {"function": mine, "plain": other}
    comparisons = _twins(session, ordinary, evidence, gs)
    return replace(
        evidence,
        memory=replace(evidence.memory, costs=costs),
        variants=replace(
            evidence.variants, comparisons=(*evidence.variants.comparisons, *comparisons)
        ),
    )


def _has_other_reasons(function: type[Function]) -> bool:
    """Whether a Function also defines how it is batched or exported."""
    return function.vmap is not Function.vmap or hasattr(function, "symbolic")


def _as_ordinary_code(function: type[Function]) -> Callable[..., Any]:
    if not takes_ctx(function):
        return function.forward

    def call(*args: Any) -> Any:
        needs = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        return function.forward(StandIn(needs), *args)

    return call


def _twins(
    session: Session, ordinary: Session, evidence: Evidence, gs: Cotangents
) -> Iterator[Comparison]:
    """Yield the results of both calls for inputs on which the Function works."""

    def like(outputs: Sequence[Tensor]) -> Cotangents:
        pairs = zip(gs, outputs, strict=True)
        return [g if g is None else g.to(out.dtype) for g, out in pairs]

    def passes(one: Session) -> Iterator[tuple[str, Pass]]:
        yield "in float32", both_ways(one, like, _single)
        for how, inputs in _places(session.inputs):
            yield how, both_ways(one, gs, inputs=inputs)
        yield "differentiated twice", _second_pass(one, gs)

    for (how, expected), (_, actual) in zip(passes(session), passes(ordinary), strict=True):
        if not expected.failure:
            yield compare(evidence, PLAIN_AUTOGRAD, how, actual, expected)


def _places(inputs: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the example, and inputs that separate formulas: overflow, underflow, ties, kinks."""
    elsewhere: dict[str, Move] = {
        "on the example": stay,
        "at 30 times the inputs": lambda t: 30 * t,
        "at 1000 times the inputs": lambda t: 1000 * t,
        "at zero": torch.zeros_like,
        "at one": torch.ones_like,
        "at whole numbers": _rounded,
    }
    for how, move in elsewhere.items():
        yield how, [move(value) if is_float(value) else value for value in inputs]


def _rounded(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return torch.complex(tensor.real.round(), tensor.imag.round())
    return tensor.round()


def _single(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex64 if tensor.is_complex() else torch.float32)


def _second_pass(session: Session, gs: Cotangents) -> Pass:
    """Return the second derivatives as a pass, or a failure if the Function has none."""
    found = attempt(lambda: derived_twice(session.run(), gs))
    if isinstance(found, Failure):
        return Pass(failure=found, stage="backward")
    again = found[len(session.wanted) : 2 * len(session.wanted)]
    return Pass(grads=again or tuple(None for _ in session.wanted))


def _cost(session: Session, gs: Cotangents) -> Cost:
    """Run forward and backward, and measure the memory alive in between and the operations."""
    leaves, args = fresh(session.inputs, session.wanted)
    swapper, recording = SavedTensorSwapper(), OperationRecorder()
    with recording, swapper.hooks():
        run = Run(leaves, args, session.call(args))
    cotangents = copies(gs)
    with recording:
        gradients(run, cotangents)
    alive = memory([swapper.saved, run.returned, *map(vars, custom_nodes(run.tensors))])
    sizes = sorted(storage.nbytes() for storage in alive)
    return Cost(tuple(sizes), len(recording.operations))
