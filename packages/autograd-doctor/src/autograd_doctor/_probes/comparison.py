"""Make a call in two ways that must give the same results, and compare the results."""

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
# Compare two passes whose results must agree.
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
    """Compare the results of a variant of a call with the results of the original call.

    ``wanted`` holds the positions of the inputs whose gradients are compared. The default is every
    input that requires grad.
    """
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
# Compare two calls on the example. If their results differ, compare the calls on other values too.
#
# If the example contains zeros or equal entries, the results of a correct Function can differ. For
# example, a maximum may choose a different one of several equal elements when the memory layout
# changes. Subtracting the mean over the batch has no visible effect when all rows are equal. Such a
# difference disappears for values without ties. A difference caused by a bug remains.
# --------------------------------------------------------------------------------------------------

INEXACT = 0.05  # for a solver that stops at a tolerance
TOLERANCE = 1e-6  # larger than the effect of a different summation order, smaller than a bug's
# relative change of each element: large enough to break ties, and small enough to stay inside the
# domain of most functions
SPREAD = 0.05


@dataclass(frozen=True)
class Plain:
    """The original call, with its inputs, cotangents and results.

    The probes compare variants with this call.
    """

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
    """Compare variants of a call with the original call, and add the comparisons to the evidence.

    ``question`` makes the variants and yields the comparisons. If a variant differs on the example
    but not on other values, leave out its comparison.

    Pass ``draws=False`` if the variants may use the random numbers for different elements. The
    comparison then ignores differences in random results. Pass ``resizes=True`` if the variants
    have different shapes. The variants then run on the CPU.
    """
    ask = _lasting_on_cpu if resizes and session.on_cpu() is not session else _lasting
    try:
        comparisons = ask(session, evidence, on_example(evidence), question, draws)
    except CannotDiagnoseError:  # a variant does not finish, so there is no evidence
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
    """Make the comparisons on the CPU, and move their tensors to the example's device."""
    device, session = plain.done.outputs[0].device, session.on_cpu()
    sent = tuple(map(on_cpu, plain.grad_outputs))
    plain = Plain(session.inputs, sent, both_ways(session, copies(sent), inputs=session.inputs))
    if plain.done.failure:  # the Function does not run on the CPU
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
    """Return the call on the example, with its results from the evidence."""
    vjp = evidence.values.vjps[RANDOM]
    outputs = tuple(out for out in evidence.forward.outputs if is_float(out))
    sent = tuple(g for g in vjp.grad_outputs if g is not None)
    return Plain(evidence.inputs, sent, Pass(outputs, vjp.grads))


def plain_call(session: Session, inputs: Sequence[Any], rng: torch.Generator) -> Plain:
    """Make the call with other inputs and new cotangents."""
    sent: list[Tensor] = []

    def cotangents(outputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
        sent.extend(sample_cotangents(outputs, rng))
        return copies(sent)

    done = both_ways(session, cotangents, inputs=inputs)
    return Plain(tuple(inputs), tuple(sent), done)


def jittered(value: Any, rng: torch.Generator) -> Any:
    """Move each element of a floating-point tensor away from zero by a small random step.

    A zero becomes positive, and other signs stay the same. Replace a tensor that has a structure,
    such as a symmetric matrix, with a random tensor that has the same structure.
    """
    if not is_float(value) or not value.numel():
        return value
    if (structure := structure_of(value)) is not None:
        return structure.draw(rng)
    step = SPREAD * torch.rand(value.shape, generator=rng, dtype=torch.float64).to(value.device)
    return torch.where(value == 0, step * (size(value) or 1.0), value * (1 + step))


def agrees(comparison: Comparison) -> bool:
    """Return whether both calls gave the same results, up to rounding."""
    pairs = zip(comparison.actual, comparison.expected, strict=True)
    return comparison.failure is None and all(
        alike(one, other, comparison.floor) for one, other in pairs
    )


def all_alike(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """Return whether the results of two calls are equal in number and, up to rounding, in value."""
    return len(some) == len(others) and all(map(alike, some, others))


def alike(one: Tensor | None, other: Tensor | None, floor: float = 0.0) -> bool:
    """Return whether two results have the same shape and, up to rounding, the same values.

    A missing gradient counts as zeros.
    """
    if one is None or other is None:
        rest = other if one is None else one
        return rest is None or not bool((rest.abs() > floor).any())
    if one.shape != other.shape:
        return False
    near = torch.equal(one, other) or same(one, other)
    return near or bool(((one - other).abs() <= floor).all())


def _elsewhere(session: Session, draws: bool) -> Plain | None:
    """Make the call with jittered inputs. Return ``None`` if it fails or is not repeatable."""
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
    """Return whether ``forward`` gives the same result from the current random state."""
    _, args = fresh(plain.inputs, session.wanted)
    returned = attempt(lambda: as_tuple(session.subject.call(*args)))
    if isinstance(returned, Failure):
        return False
    return all_alike([out for out in returned if is_float(out)], plain.done.outputs)


# --------------------------------------------------------------------------------------------------
# Find the custom Functions in a call.
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
    """Record the names of the Functions whose ``forward`` takes ``ctx``.

    Ignore the Functions that PyTorch defines for custom operators, because users cannot change
    them.
    """
    own = (f for f in definitions(session) if not f.__module__.startswith("torch."))
    found = [f for f in own if takes_ctx(f)]
    return replace(
        evidence,
        contract=replace(
            evidence.contract, old_style=tuple(function.__name__ for function in found)
        ),
    )


# --------------------------------------------------------------------------------------------------
# Is the custom Function necessary, or does autograd give the same result for the same forward?
#
# One call applies the Function. The other call runs the Function's forward as ordinary code, with a
# stand-in for ctx that does nothing. The two calls must give the same outputs, gradients and second
# derivatives, even where a formula overflows or has a kink. If they do, a rule compares their
# costs.
# --------------------------------------------------------------------------------------------------

Cotangents = Sequence[Tensor | None]


class StandIn:
    """A stand-in for ctx that accepts the method calls in ``forward`` and ignores them."""

    saved_tensors = ()

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        """Do nothing, because autograd itself saves the tensors that it needs."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward
    set_materialize_grads = save_for_backward


def plain(session: Session, evidence: Evidence) -> Evidence:
    """Compare a custom Function with ordinary autograd on the same ``forward`` code."""
    function = session.subject.function
    if function is None or not evidence.forward.whole or _has_other_reasons(function):
        return evidence
    if not any(output.numel() for output in evidence.forward.outputs):
        return evidence
    subject = replace(session.subject, call=as_ordinary_code(function), function=None)
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
    """Return whether a Function also defines ``vmap`` or ``symbolic`` (for ONNX export)."""
    return function.vmap is not Function.vmap or hasattr(function, "symbolic")


def as_ordinary_code(function: type[Function]) -> Callable[..., Any]:
    """Return a Function's ``forward`` as a callable that autograd differentiates."""
    if not takes_ctx(function):
        return function.forward

    def call(*args: Any) -> Any:
        needs = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        return function.forward(StandIn(needs), *args)

    return call


def _twins(
    session: Session, ordinary: Session, evidence: Evidence, gs: Cotangents
) -> Iterator[Comparison]:
    """Compare a Function with ordinary autograd for several inputs.

    Skip inputs for which the Function fails.
    """

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
    """Yield the example, then inputs for which equivalent formulas may give different results.

    These inputs cause overflow, underflow, kinks or ties.
    """
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
    """Return the second derivatives, or the error that PyTorch raises, as a ``Pass``."""
    found = attempt(lambda: derived_twice(session.run(), gs))
    if isinstance(found, Failure):
        return Pass(failure=found, stage="backward")
    again = found[len(session.wanted) : 2 * len(session.wanted)]
    return Pass(grads=again or tuple(None for _ in session.wanted))


def _cost(session: Session, gs: Cotangents) -> Cost:
    """Count the operations in forward and backward, and measure the memory held between the two."""
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
