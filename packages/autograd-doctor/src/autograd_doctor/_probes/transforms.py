"""Compare ordinary calls with forward mode, ``vmap``, ``torch.compile`` and autocast."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from autograd_doctor._execution.calls import attempt, describe_compile_error, fresh
from autograd_doctor._execution.isolation import Stream, generator, reseed
from autograd_doctor._execution.passes import Pass, both_ways, copies, gradients, sample_cotangents
from autograd_doctor._execution.session import Arrange, Move, Run, Session
from autograd_doctor._inputs import varied
from autograd_doctor._numerics.closeness import cancellation, resolution
from autograd_doctor._numerics.finite_differences import as_real, flat
from autograd_doctor._numerics.rounding import alike, distance, each, peaks, wide
from autograd_doctor._numerics.tensors import as_tuple, is_float
from autograd_doctor._probes.comparison import (
    TOLERANCE,
    Plain,
    asked,
    compare,
    definitions,
    output_names,
)
from autograd_doctor.evidence import Comparison, Evidence, Failure, FakeCall
from autograd_doctor.formatting import listed

# --------------------------------------------------------------------------------------------------
# Compare forward mode with reverse mode, without finite differences: ⟨g, J v⟩ = ⟨Jᵀ g, v⟩.
# --------------------------------------------------------------------------------------------------

ROUNDING = 1e-6  # relative to the terms; float32 rounding inside forward is not a bug

ByPosition = Mapping[int, Tensor | None]  # tangents or gradients, by position in the call


def forward_mode(session: Session, evidence: Evidence) -> Evidence:
    """If every Function in the graph defines ``jvp``, compare output tangents with gradients."""
    functions = definitions(session)
    if not functions or any(function.jvp is Function.jvp for function in functions):
        return evidence
    return asked(session, evidence, _forward_mode_question)


def _forward_mode_question(
    session: Session, evidence: Evidence, plain: Plain
) -> Iterator[Comparison]:
    tangents = sample_tangents(session, plain.inputs)
    gradients = list(_by_output(session, plain))
    for how, moving in _moving(evidence, tangents):
        given = _copied(moving)
        actual = attempt(lambda: _pushed(session, plain.inputs, given))  # noqa: B023 - called here
        if not isinstance(actual, Failure):
            yield from _compared(evidence, how, plain.grad_outputs, actual, gradients, moving)
            yield from _left_alone(evidence, how, given, moving)
        # In a callable, other operations may not support forward mode.
        elif evidence.forward.whole and not _refuses(actual):
            yield Comparison("jvp", how, failure=actual, stage="forward mode")


def _refuses(failure: Failure) -> bool:
    """Return whether a line in the user's code raises NotImplementedError.

    A method that only raises this error is like a method that the class does not define.
    """
    stated = not failure.line or "raise" in failure.line  # an operation raises it without ``raise``
    return failure.kind == "NotImplementedError" and stated


def sample_tangents(session: Session, inputs: Sequence[Any]) -> dict[int, Tensor]:
    """Return a random tangent for each differentiated input."""
    likes = [inputs[position] for position in session.wanted]
    found = sample_cotangents(likes, generator(session.seed, Stream.TANGENTS))
    return dict(zip(session.wanted, found, strict=True))


def _copied(tangents: ByPosition) -> ByPosition:
    return {position: None if v is None else v.clone() for position, v in tangents.items()}


def _left_alone(
    evidence: Evidence, how: str, after: ByPosition, before: ByPosition
) -> Iterator[Comparison]:
    """Compare each input tangent after ``jvp`` with its value before ``jvp``.

    ``jvp`` must not change a tangent, because other operations read it. If ``forward`` changes its
    input in place, ``jvp`` must also change the tangent. In this case, compare nothing.
    """
    if evidence.forward.dirty:
        return
    for position, tangent in before.items():
        name = f"the tangent of `{evidence.name(position)}`"
        yield Comparison("tangent", how, (name,), (after[position],), (tangent,))


def _moving(evidence: Evidence, tangents: ByPosition) -> Iterator[tuple[str, ByPosition]]:
    """Yield each input's tangent alone, and then all tangents together, with descriptions."""
    names = [f"`{evidence.name(position)}`" for position in tangents]
    alone = " alone" if len(names) > 1 else ""
    for name, position in zip(names, tangents, strict=True):
        yield f"for a tangent of {name}{alone}", {position: tangents[position]}
    if alone:
        yield f"for tangents of {listed(names, len(names))}", tangents


def _by_output(session: Session, plain: Plain) -> Iterator[ByPosition]:
    """For each output, yield the gradients of a backward pass from this output alone."""
    gs = plain.grad_outputs
    if len(gs) == 1:
        yield dict(zip(session.wanted, plain.done.grads, strict=True))
        return
    for k in range(len(gs)):
        only = [g if j == k else None for j, g in enumerate(gs)]
        grads = both_ways(session, only, inputs=plain.inputs).grads
        yield dict(zip(session.wanted, grads, strict=False))


def _pushed(session: Session, inputs: Sequence[Any], tangents: ByPosition) -> list[Tensor | None]:
    """Make one call in forward mode. Return the tangents of the outputs."""
    with forward_ad.dual_level():
        floats = session.run(inputs=inputs, wanted=(), arrange=duals(tangents)).floats
        pushed = [forward_ad.unpack_dual(out).tangent for out in floats]
        return [None if tangent is None else tangent.detach().clone() for tangent in pushed]


def duals(tangents: ByPosition) -> Arrange:
    """Return a function that attaches tangents to arguments. It must run inside a dual level."""

    def dual(args: list[Any]) -> list[Any]:
        pairs = ((arg, tangents.get(i)) for i, arg in enumerate(args))
        return [arg if v is None else forward_ad.make_dual(arg, v) for arg, v in pairs]

    return dual


def _compared(
    evidence: Evidence,
    how: str,
    grad_outputs: Sequence[Tensor],
    pushed: Sequence[Tensor | None],
    gradients: Sequence[ByPosition],
    tangents: ByPosition,
) -> Iterator[Comparison]:
    """For each output, compare ⟨g, J v⟩ from forward mode with ⟨Jᵀ g, v⟩ from backward."""
    names = output_names(len(grad_outputs))
    for name, g, tangent, grads in zip(names, grad_outputs, pushed, gradients, strict=True):
        actual, size, coarse = _inner([(g, tangent)])
        pairs = [(v, grads.get(position)) for position, v in tangents.items()]
        expected, other_size, other_coarse = _inner(pairs)
        larger = max(abs(actual), abs(expected)) or 1.0
        # The tolerance is relative to the terms, because their sum is small if they cancel.
        tolerance = max(ROUNDING, coarse, other_coarse) * max(1.0, (size + other_size) / larger)
        numbers = [(torch.tensor(value, dtype=torch.float64),) for value in (actual, expected)]
        moved = sum(float(v.abs().sum()) for v in tangents.values() if v is not None)
        floor = cancellation(evidence) * moved
        yield Comparison("jvp", how, (name,), numbers[0], numbers[1], tolerance, floor=floor)


def _inner(pairs: Sequence[tuple[Tensor | None, Tensor | None]]) -> tuple[float, float, float]:
    """Add the inner products of the pairs.

    Return the sum, the norm of its terms, and the relative precision of the second factors.
    """
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    terms = flat([]) if not known else torch.cat([flat([a]) * flat([b]) for a, b in known])
    coarse = max((resolution(other) for _, other in known), default=0.0)
    return float(terms.sum()), float(terms.norm()), coarse


# --------------------------------------------------------------------------------------------------
# Compare the derivative of the tangents that jvp returns with the derivative of backward.
#
# ⟨g, J v⟩ and ⟨Jᵀ g, v⟩ are the same function of the inputs, so their derivatives are equal. The
# derivative of ⟨g, J v⟩ uses the graph of jvp. The derivative of ⟨Jᵀ g, v⟩ uses the graph of
# backward, and the evidence on second derivatives already confirms it.
# --------------------------------------------------------------------------------------------------


def reverse_over_forward(session: Session, evidence: Evidence) -> Evidence:
    """Compare the derivative of ``jvp`` with the derivative of ``backward``.

    Skip this comparison unless every Function defines ``jvp`` and the second derivatives of
    ``backward`` are correct.
    """
    functions = definitions(session)
    if not functions or any(function.jvp is Function.jvp for function in functions):
        return evidence
    if not _twice(evidence):
        return evidence
    return asked(session, evidence, _reverse_over_forward_question)


def _twice(evidence: Evidence) -> bool:
    second = evidence.second_order
    return bool(second and not second.failure and not any(d.wrong for d in second.derivatives))


def _reverse_over_forward_question(
    session: Session, evidence: Evidence, plain: Plain
) -> Iterator[Comparison]:
    tangents = sample_tangents(session, plain.inputs)
    expected = attempt(lambda: _backward_differentiated(session, plain, tangents))
    actual = attempt(lambda: _tangent_differentiated(session, plain, tangents))
    # the error already tells users that this is not supported
    if isinstance(actual, Failure) or isinstance(expected, Failure):
        return
    for position, one, other in zip(session.wanted, actual, expected, strict=True):
        name = evidence.name(position)
        yield Comparison("tangent graph", f"by {name}", (name,), (one,), (other,), TOLERANCE)


def _backward_differentiated(
    session: Session, plain: Plain, tangents: dict[int, Tensor]
) -> Sequence[Tensor | None]:
    run = session.run(inputs=plain.inputs)
    grads = gradients(run, plain.grad_outputs, create_graph=True)
    return _differentiated(run, grads, list(tangents.values()))


def _tangent_differentiated(
    session: Session, plain: Plain, tangents: dict[int, Tensor]
) -> Sequence[Tensor | None]:
    with forward_ad.dual_level():
        run = session.run(inputs=plain.inputs, arrange=duals(tangents))
        pushed = [forward_ad.unpack_dual(out).tangent for out in run.floats]
        return _differentiated(run, pushed, plain.grad_outputs)


def _differentiated(
    run: Run, some: Sequence[Tensor | None], others: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Differentiate the sum of the inner products ⟨some, others⟩ with respect to the inputs.

    If no inner product has a graph, every result is ``None``.
    """
    pairs = zip(some, others, strict=True)
    terms = [(as_real(one) * as_real(other)).sum() for one, other in pairs if one is not None]
    terms = [term for term in terms if term.requires_grad]
    if not terms:
        return [None for _ in run.leaves]
    total = torch.stack(terms).sum()
    found = torch.autograd.grad(total, run.leaves, allow_unused=True)
    return [None if grad is None else grad.detach() for grad in found]


# --------------------------------------------------------------------------------------------------
# Compare one torch.func.vmap call over stacked inputs with a loop over the inputs.
# --------------------------------------------------------------------------------------------------

COTANGENTS = (1.0, -0.5, 2.0)  # for each slice, the factor that multiplies grad_output
# A batched kernel may sum in a different order, and a vmap rule may compute in float32.
VMAP_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Layout:
    """A choice of ``in_dims`` for ``torch.func.vmap``.

    For each argument, ``in_dims`` holds the dim along which the slices are stacked, or ``None`` if
    all slices share the argument. If ``must_run`` is true, every vmap rule must support this
    choice, and an error counts as a failure. In the ``plain`` layout, the slices of each floating
    tensor are stacked along the first dim. A rule that refuses it supports no ``vmap``.
    """

    how: str
    in_dims: tuple[int | None, ...]
    must_run: bool = True
    shared: bool = False
    plain: bool = False


def vmapped(session: Session, evidence: Evidence) -> Evidence:
    """If every Function in the graph supports ``vmap``, compare ``vmap`` with a loop."""
    functions = definitions(session)
    only_tensors = len(evidence.forward.outputs) == len(evidence.forward.kinds)
    if not functions or not all(map(opted_in, functions)) or not only_tensors:
        return evidence
    return asked(session, evidence, _vmap_question, draws=False)


def opted_in(function: type[Function]) -> bool:
    """Return whether a Function defines ``vmap`` or sets ``generate_vmap_rule``."""
    return bool(function.generate_vmap_rule) or function.vmap is not Function.vmap


def _vmap_question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    rng = generator(session.seed, Stream.SLICES)
    slices = [plain.inputs, *(varied(plain.inputs, rng) for _ in COTANGENTS[1:])]
    for layout in _layouts(evidence):
        expected = attempt(lambda: _looped(session, plain, slices, layout))  # noqa: B023 - called here
        if isinstance(expected, Failure) or expected.failure:
            continue
        actual = _stacked(session, plain, slices, layout, expected)
        if actual.failure and layout.plain and _refuses(actual.failure):
            return
        if not actual.failure or (evidence.forward.whole and _is_fault(actual.failure, layout)):
            yield compare(evidence, "vmap", layout.how, actual, expected, tolerance=VMAP_TOLERANCE)


def _layouts(evidence: Evidence) -> Iterator[Layout]:
    floats = [is_float(value) for value in evidence.inputs]
    tensors = [isinstance(value, Tensor) for value in evidence.inputs]
    every = tuple(0 if float_ else None for float_ in floats)
    in_place = bool(evidence.forward.dirty)
    yield Layout("under `torch.func.vmap`", every, must_run=not in_place, plain=True)
    if in_place:  # the slices share this tensor, so they cannot all change it
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
    """Make one call per slice. Stack the results in the same way as ``vmap``."""
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
    """Stack the gradients of the slices, or add them if the slices share the input."""
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
    expected: Pass,
) -> Pass:
    """Make one call under ``vmap``, and run one backward pass through its graph."""
    inputs = [
        plain.inputs[i] if dim is None else torch.stack([values[i] for values in slices], dim)
        for i, dim in enumerate(layout.in_dims)
    ]
    run = attempt(lambda: _run(session, inputs, layout))
    if isinstance(run, Failure):
        return Pass(failure=run, stage="forward")
    outputs = tuple(out.detach().clone() for out in run.floats)
    if [out.shape for out in outputs] != [out.shape for out in expected.outputs]:
        return Pass(outputs, expected.grads)  # a difference in shape is enough
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
    session.subject.begin(())
    batched = torch.func.vmap(floats, layout.in_dims, randomness="same")
    return Run(leaves, args, batched(*args))


# --------------------------------------------------------------------------------------------------
# Compare the fake implementation of an operator with a real call, in the caller's own dtypes.
# --------------------------------------------------------------------------------------------------


def fake_implementation(session: Session, evidence: Evidence) -> Evidence:
    """If the subject is an operator, compare what its fake implementation says with a real call.

    ``torch.compile`` and ``torch.export`` trust the fake implementation and never check it.
    """
    if not session.subject.is_operator:
        return evidence
    inputs = session.in_own_dtypes() or session.inputs
    real = attempt(lambda: as_tuple(session.call(fresh(inputs, ())[1])))
    if isinstance(real, Failure):
        return evidence
    fake = attempt(lambda: _faked(session, inputs))
    seen = (
        FakeCall(failure=fake)
        if isinstance(fake, Failure)
        else FakeCall(tuple(_differences(fake, real)))
    )
    return replace(evidence, variants=replace(evidence.variants, fake_call=seen))


def _faked(session: Session, inputs: Sequence[Any]) -> tuple[Any, ...]:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # for sizes that depend on values

    mode = FakeTensorMode(shape_env=ShapeEnv())
    args = [mode.from_tensor(v, static_shapes=True) if isinstance(v, Tensor) else v for v in inputs]
    with mode:
        return as_tuple(session.subject.call(*args))


def _differences(fake: Sequence[Any], real: Sequence[Any]) -> Iterator[tuple[int, str, str, str]]:
    for k, (one, other) in enumerate(zip(fake, real, strict=False)):
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            for what, has in (
                ("shape", _shape),
                ("dtype", lambda t: str(t.dtype).removeprefix("torch.")),
                ("device", lambda t: t.device.type),
                ("strides", _strides),
            ):
                if (said := has(one)) != (found := has(other)) and "?" not in said:
                    yield k, what, said, found
                    break  # other strides follow from another shape


def _shape(tensor: Tensor) -> str:
    return _numbers(tensor.shape)


def _strides(tensor: Tensor) -> str:
    """Return the strides of the dims with several elements, because the others do not matter."""
    if any(not isinstance(n, int) or n == 0 for n in tensor.shape):
        return "?"
    return _numbers([s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1])


def _numbers(sizes: Sequence[Any]) -> str:
    """Format sizes. A size that depends on values is "?"."""
    known = [str(size) if isinstance(size, int) else "?" for size in sizes]
    return f"({', '.join(known)}{',' * (len(known) == 1)})"


# --------------------------------------------------------------------------------------------------
# Compare torch.compile with eager mode.
#
# The backend (``aot_eager``) traces but generates no code, so any difference comes from tracing.
# Dynamo stores its results on the code object of the function that it compiles. Therefore, the
# probe compiles a small caller with a new code object each time. Dynamo traces the user's function
# as part of the caller, so it stores nothing on the user's code object.
# --------------------------------------------------------------------------------------------------

COMPILE_TOLERANCE = 1e-6  # tracing may replace an operation with operations that round differently
LONGEST = 200  # maximum number of characters in a reason

Call = Callable[..., Any]


def compiled(session: Session, evidence: Evidence) -> Evidence:
    """If ``torch.compile`` works in this environment, compare a compiled call with eager mode."""
    if not _available():
        return evidence
    return asked(session, evidence, _compile_question, draws=False)


def _compile_question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Comparison]:
    actual = _traced(session, plain)
    how = "under `torch.compile`"
    yield compare(evidence, "compile", how, actual, plain.done, tolerance=COMPILE_TOLERANCE)


def _traced(session: Session, plain: Plain) -> Pass:
    leaves, args = fresh(plain.inputs, session.wanted)
    reseed(session.seed)
    session.subject.begin(args)
    try:
        with silence():
            returned = as_tuple(whole(session.subject.call)(*args))
            run = Run(leaves, args, returned)
            grads = gradients(run, copies(plain.grad_outputs))
    except Exception as error:
        return Pass(failure=describe_compile_error(error), stage="tracing")
    outputs = tuple(out.detach().clone() for out in run.floats)
    return Pass(outputs, tuple(g if g is None else g.detach() for g in grads))


def whole(call: Call) -> Call:
    """Compile a function into a single graph.

    If a single graph is impossible, the first call raises an error.
    """
    return torch.compile(_own(call), backend="aot_eager", fullgraph=True, dynamic=False)


def _own(call: Call) -> Call:
    def caller(*args: Any) -> Any:
        return call(*args)

    code = caller.__code__.replace()
    return FunctionType(code, caller.__globals__, closure=caller.__closure__)


@contextmanager
def silence() -> Iterator[None]:
    """Disable logging inside a ``with`` block, because Dynamo's exceptions contain the details."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class _Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 2 * grad_output


@cache
def _available() -> bool:
    """Return whether ``torch.compile`` can compile a correct Function in this environment."""
    x = torch.ones(2, requires_grad=True)
    try:
        with silence():
            torch.autograd.grad(whole(_Doubled.apply)(x).sum(), x)
    except Exception:
        return False
    return True


# --------------------------------------------------------------------------------------------------
# Compare a float32 call with a call under autocast. As in training loops, backward runs outside it.
# --------------------------------------------------------------------------------------------------

LOW = torch.bfloat16
FAR = 0.1  # relative to the magnitude; about 25 times the rounding error of bfloat16


def autocast(session: Session, evidence: Evidence) -> Evidence:
    """Compare the call under autocast with the same call in float32."""
    if any(isinstance(v, Tensor) and v.is_complex() for v in session.inputs):
        return evidence
    plain = _pass(session, lambda t: t.float())
    rounded = _pass(_otherwise_random(session), lambda t: t.to(LOW).float())
    if plain.failure or rounded.failure:
        return evidence
    actual = _pass(_under_autocast(session), lambda t: t.float())
    how = f"under autocast to {str(LOW).removeprefix('torch.')}"
    tolerance = max(FAR, 10 * _change(rounded, plain))
    found = compare(evidence, "autocast", how, actual, plain, tolerance=tolerance)
    return replace(
        evidence,
        variants=replace(evidence.variants, comparisons=(*evidence.variants.comparisons, found)),
    )


def _under_autocast(session: Session) -> Session:
    device = session.inputs[session.wanted[0]].device.type
    call = torch.autocast(device, dtype=LOW)(session.subject.call)
    subject = replace(session.subject, call=call, function=None)
    return Session(subject, session.inputs, session.wanted, session.seed)


def _otherwise_random(session: Session) -> Session:
    """Return a copy of the session with a different seed.

    A Function may draw different random numbers under autocast. The copy shows how much this
    changes the results.
    """
    other = copy.copy(session)
    other.seed += 1
    return other


def _pass(session: Session, move: Move) -> Pass:
    def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
        rng = generator(session.seed, Stream.AUTOCAST)
        return [
            torch.randn(out.shape, generator=rng, dtype=torch.float32).to(LOW).to(out)
            for out in outputs
        ]

    done = both_ways(session, cotangents, move)
    return replace(done, outputs=tuple(map(wide, done.outputs)), grads=each(wide, done.grads))


def _change(one: Pass, other: Pass) -> float:
    """Return the relative difference between two passes, or inf if they cannot be compared."""
    values, others = (*one.outputs, *one.grads), (*other.outputs, *other.grads)
    if not alike(values, others):
        return torch.inf
    sizes = zip(peaks(each(distance, values, others)), peaks(others), strict=True)
    return max((apart / size for apart, size in sizes if size), default=0.0)
