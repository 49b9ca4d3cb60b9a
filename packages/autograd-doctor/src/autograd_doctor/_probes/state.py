"""Find results that change between calls, and calls that use or change more than their inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt
from autograd_doctor._execution.captured_state import TensorState
from autograd_doctor._execution.isolation import Stream, generator, random_state, reseed
from autograd_doctor._execution.lines import line_that_differs
from autograd_doctor._execution.operations import custom_nodes, memory
from autograd_doctor._execution.passes import Pass, both_ways, copies, gradients
from autograd_doctor._execution.session import Run, Session
from autograd_doctor._inputs import in_double
from autograd_doctor._numerics.closeness import size
from autograd_doctor._numerics.finite_differences import flat, slopes
from autograd_doctor._numerics.tensors import changed, is_float, is_number, same_bytes
from autograd_doctor._probes.comparison import agrees, compare, output_names
from autograd_doctor._safe_repr import shown
from autograd_doctor.evidence import (
    AN_ITERATOR,
    OTHER,
    RANDOM,
    Captured,
    Comparison,
    Evidence,
    Failure,
    OnCtx,
)
from autograd_doctor.formatting import listed, number

# --------------------------------------------------------------------------------------------------
# Does the same call, or the same backward pass, give the same result twice?
# --------------------------------------------------------------------------------------------------


def repetition(session: Session, evidence: Evidence) -> Evidence:
    """Repeat a call with several changes that must not affect its results.

    If a result differs, repeat the call with each change alone to find the one that matters.
    Otherwise, if the call draws random numbers, repeat it with several seeds, because a random
    number may determine whether ``backward`` draws further ones.
    """
    plain, grad_outputs = _first_time(evidence), evidence.values.vjps[RANDOM].grad_outputs
    altogether, draws = _again(session, grad_outputs, filled=True, redrawn=True, reseeded=True)
    found: list[Comparison] = []
    if not _identical(altogether, plain):
        ways = {
            "repeated": (REPEATED, _again(session, grad_outputs)[0], plain),
            "filled": (FILLED, _again(session, grad_outputs, filled=True)[0], plain),
            "redrawn": (REDRAWN, _again(session, grad_outputs, redrawn=True)[0], plain),
            "reseeded": (RESEEDED, _again(session, grad_outputs, reseeded=True)[0], plain),
        }
        found = [
            compare(evidence, kind, how, actual, expected)
            for kind, (how, actual, expected) in ways.items()
            if _comparable(actual, expected) and not _identical(actual, expected)
        ]
    elif draws:
        found = list(_with_other_seeds(session, evidence))
    return replace(
        evidence,
        variants=replace(evidence.variants, comparisons=(*evidence.variants.comparisons, *found)),
    )


SEEDS = 8  # for a call that draws random numbers
REPEATED = "from one call to the next, with the same arguments and seeds"
FILLED = "when torch.empty returns memory filled with nan"
REDRAWN = "when `backward` reuses them"
RESEEDED = "when `backward` starts from a different seed"


def _with_other_seeds(session: Session, evidence: Evidence) -> Iterator[Comparison]:
    """Try several seeds. Yield the first comparison in which reseeding changes the gradients."""
    grad_outputs = evidence.values.vjps[RANDOM].grad_outputs
    for k in range(1, SEEDS + 1):
        other = copy.copy(session)
        other.seed += k
        plain, _ = _again(other, grad_outputs)
        actual, _ = _again(other, grad_outputs, reseeded=True)
        if _comparable(actual, plain) and not _identical(actual, plain):
            yield compare(evidence, "reseeded", RESEEDED, actual, plain)
            return


def second_backward(session: Session, evidence: Evidence) -> Evidence:
    """Run two backward passes, with different cotangents, through the same graph."""
    first, second = evidence.values.vjps[OTHER], evidence.values.vjps[RANDOM]

    def go_through(run: Run) -> None:
        attempt(lambda: gradients(run, copies(first.grad_outputs), retain_graph=True))

    actual = both_ways(session, second.grad_outputs, between=go_through)
    found = _backward_twin(evidence, actual)
    if not agrees(found):
        run = attempt(session.run)
        if not isinstance(run, Failure):
            # Examine the attributes first: after a pass, PyTorch may deny access to the graph.
            altered = _altered(run, second.grad_outputs)
            line = _parting_line(run, second.grad_outputs)
            found = replace(found, line=line, altered=altered)
    return replace(
        evidence,
        variants=replace(evidence.variants, comparisons=(*evidence.variants.comparisons, found)),
    )


def _parting_line(run: Run, grad_outputs: Sequence[Tensor | None]) -> str:
    """Return the first source line whose results differ between two identical backward passes."""

    def backward() -> None:
        gradients(run, copies(grad_outputs), retain_graph=True)

    return line_that_differs(backward, backward)


def _altered(run: Run, grad_outputs: Sequence[Tensor | None]) -> tuple[str, ...]:
    """Describe a ``ctx`` attribute that a backward pass changes. See ``Comparison.altered``."""
    nodes = custom_nodes(run.tensors, depth=1)
    before = [(node, name, _snapshot(it)) for node in nodes for name, it in vars(node).items()]
    for _, name, was in before:
        if isinstance(was, Iterator):
            return f"ctx.{name}", AN_ITERATOR, ""
    attempt(lambda: gradients(run, copies(grad_outputs), retain_graph=True))
    for node, name, was in before:
        own, held = f"ctx.{name}", vars(node)
        if name not in held:
            return own, "", ""
        now = held[name]
        if now is None and was is not None:
            return own, "None afterwards", ""
        if type(now) is not type(was):
            return own, "another type afterwards", ""
        if isinstance(was, Tensor) and changed([was], [now]):
            return own, "other numbers afterwards", f"{own}.clone()"
        if isinstance(was, list) and len(was) != len(now):
            return own, f"{len(was)} elements before, {len(now)} afterwards", f"list({own})"
        if is_number(was) and was != now:
            return own, f"{number(was)} before, {number(now)} afterwards", ""
    return ()


def _snapshot(value: Any) -> Any:
    """Copy a list or a tensor. Return any other value unchanged."""
    if isinstance(value, Tensor):
        return value.clone()
    return list(value) if isinstance(value, list) else value


def _backward_twin(evidence: Evidence, actual: Pass) -> Comparison:
    expected = replace(_first_time(evidence), outputs=())
    how = "in a second backward pass through the same graph"
    return compare(evidence, "second backward", how, replace(actual, outputs=()), expected)


def _first_time(evidence: Evidence) -> Pass:
    """Return the outputs and gradients of the first call, which the evidence already contains."""
    outputs = tuple(output for output in evidence.forward.outputs if is_float(output))
    return Pass(outputs, evidence.values.vjps[RANDOM].grads)


def _again(
    session: Session,
    grad_outputs: Sequence[Tensor | None],
    *,
    filled: bool = False,
    redrawn: bool = False,
    reseeded: bool = False,
) -> tuple[Pass, bool]:
    """Repeat the call. Return its results, and whether it draws random numbers."""
    reseed(session.seed)
    states = [random_state()]

    def between(run: Run) -> None:
        states.append(random_state())
        if redrawn:
            session.redraw()
        if reseeded:
            reseed(session.seed + OTHER_SEED)
        states.append(random_state())

    with memory_filled(filled):
        done = both_ways(session, grad_outputs, between=between)
    states.append(random_state())
    return done, states[0] != states[1] or states[-2] != states[-1]


OTHER_SEED = 1000  # different from the seeds of other samples


@contextmanager
def memory_filled(wanted: bool = True) -> Iterator[None]:
    """Fill uninitialized memory with nan inside a ``with`` block."""
    mode = torch.get_deterministic_debug_mode()
    deterministic: Any = torch.utils.deterministic
    fill = deterministic.fill_uninitialized_memory
    if wanted:
        torch.set_deterministic_debug_mode("warn")
        deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        deterministic.fill_uninitialized_memory = fill


def _comparable(one: Pass, other: Pass) -> bool:
    return one.failure is None and len(one.outputs) == len(other.outputs)


def _identical(one: Pass, other: Pass) -> bool:
    """Return whether two passes gave exactly the same results."""
    return _comparable(one, other) and all(
        a is b if a is None or b is None else same_bytes(a, b)
        for a, b in zip((*one.outputs, *one.grads), (*other.outputs, *other.grads), strict=True)
    )


# --------------------------------------------------------------------------------------------------
# Do the outputs depend on an earlier call with other arguments, for example through a cache?
# --------------------------------------------------------------------------------------------------

MOST_NUMBERS = 4
DEPENDS = 1e-3  # relative; a solver that starts from its last solution may differ by less


def earlier_calls(session: Session, evidence: Evidence) -> Evidence:
    """Call a Function with other arguments, first alone and then after the original call."""
    around = session.subject.around
    found = []
    for names, other in _with_other_arguments(session):
        around.forget_calls()
        first = attempt(other.run)
        around.forget_calls()
        attempt(session.run)
        later = attempt(other.run)
        around.forget_calls()
        if isinstance(first, Failure) or isinstance(later, Failure):
            continue  # the Function does not accept these arguments
        how = f"when `forward` ran before with {names}"
        passes = [Pass(tuple(out.detach() for out in run.floats)) for run in (later, first)]
        if _comparable(*passes):
            found.append(
                compare(evidence, "earlier call", how, *passes, wanted=(), tolerance=DEPENDS)
            )
    return replace(
        evidence,
        variants=replace(evidence.variants, comparisons=(*evidence.variants.comparisons, *found)),
    )


def _with_other_arguments(session: Session) -> Iterator[tuple[str, Session]]:
    """Yield sessions with another number, other integers or other tensors.

    Each comes with a phrase for the arguments of the original call. Sorted integers stay sorted,
    because they may be the row pointers of a sparse matrix. The numbers change one at a time,
    because a cache key may contain only some of them.
    """
    args = session.inputs
    numbers: list[dict[int, Any]] = [
        {k: 0.75 * value} for k, value in enumerate(args) if isinstance(value, float) and value
    ]
    integers: dict[int, Any] = {
        k: _mirrored(value)
        for k, value in enumerate(args)
        if isinstance(value, Tensor) and not is_float(value) and value.numel() > 1
    }
    safe = session.on_cpu() is session  # after an invalid index, every GPU call fails
    for other in (*numbers[:MOST_NUMBERS], integers if safe else {}):
        names = [f"`{session.subject.parameters[k]}`" for k in other]
        if names:
            which = "another" if len(names) == 1 else "other"
            yield f"{which} {listed(names)}", session.with_inputs(other)
    yield "other values", session.other()


def _mirrored(value: Tensor) -> Tensor:
    """Reverse the integers of a tensor. If they are sorted, reverse the steps between them."""
    mirrored = value.flip(tuple(range(value.dim())))
    in_order = value.dim() == 1 and value.dtype != torch.bool and bool((value.diff() >= 0).all())
    return value[0] + value[-1] - mirrored if in_order else mirrored


# --------------------------------------------------------------------------------------------------
# Does a backward that recomputes forward update a module's state a second time?
# --------------------------------------------------------------------------------------------------


def recomputation(session: Session, evidence: Evidence) -> Evidence:
    """Find module buffers that both ``forward`` and ``backward`` update."""
    around = session.subject.around
    if not around.buffers:
        return evidence
    session.subject.begin(session.inputs, session.subject.passed)
    at_first = _copied(around.buffers)
    run = attempt(session.run)
    if isinstance(run, Failure):
        return evidence
    forth = _copied(around.buffers)
    attempt(lambda: gradients(run, copies(evidence.values.vjps[RANDOM].grad_outputs)))
    back = _copied(around.buffers)
    twice = [n for n in at_first if _differ(at_first, forth, n) and _differ(forth, back, n)]
    if not twice:
        return evidence
    actual, expected = (tuple(values[name] for name in twice) for values in (back, forth))
    found = Comparison("recomputed", "in backward", tuple(twice), actual, expected)
    return replace(
        evidence,
        variants=replace(evidence.variants, comparisons=(*evidence.variants.comparisons, found)),
    )


def _copied(buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: buffer.detach().clone() for name, buffer in buffers.items()}


def _differ(one: Mapping[str, Tensor], other: Mapping[str, Tensor], name: str) -> bool:
    both = name in one and name in other
    return both and not same_bytes(one[name], other[name])


# --------------------------------------------------------------------------------------------------
# What happens to tensors that forward uses even though they are not arguments?
# --------------------------------------------------------------------------------------------------


def captured(session: Session, evidence: Evidence) -> Evidence:
    """Find tensors in a closure, a list or a module that require grad but get no gradient."""
    subject = session.subject
    if subject.function is None:  # a callable may detach the tensor on purpose
        return evidence
    passed = list(subject.passed.values())
    asking = [held for held in subject.around.held if held.asks and held not in passed]
    if not asking:
        return evidence
    lonely = _without_gradient(session, evidence, asking)
    return replace(
        evidence,
        memory=replace(
            evidence.memory, captured=tuple(_moved(session, evidence, held) for held in lonely)
        ),
    )


def _without_gradient(
    session: Session, evidence: Evidence, asking: Sequence[TensorState]
) -> list[TensorState]:
    """Return the tensors that a backward pass does not reach."""
    reached: set[str] = set()  # tensors that a backward pass inside backward reaches

    def note(name: str) -> Any:
        return lambda grad: reached.add(name)

    def passes() -> tuple[Tensor | None, ...]:
        run = session.run()
        run.leaves.extend(held.tensor for held in asking)
        return gradients(run, copies(evidence.values.vjps[RANDOM].grad_outputs))

    hooks = [held.tensor.register_hook(note(held.name)) for held in asking]
    grads = attempt(passes)
    for hook in hooks:
        hook.remove()
    if isinstance(grads, Failure):
        return []
    own = grads[-len(asking) :]
    return [
        held
        for held, grad in zip(asking, own, strict=True)
        if grad is None and held.name not in reached
    ]


def _moved(session: Session, evidence: Evidence, held: TensorState) -> Captured:
    """Measure how much the outputs change when a captured tensor moves in random directions."""

    def values(moved: Sequence[Any]) -> Tensor:
        with held.instead(moved[0]), torch.no_grad():
            run = attempt(session.run)
        if isinstance(run, Failure) or len(run.tensors) != len(asks):
            return nowhere
        found = flat([output for output, asked in zip(run.tensors, asks, strict=True) if asked])
        return found if found.numel() == nowhere.numel() else nowhere

    asks = evidence.forward.requires_grad
    outputs = zip(evidence.forward.outputs, asks, strict=True)
    nowhere = torch.full_like(flat([output for output, asked in outputs if asked]), torch.nan)
    value = in_double(held.data)
    found = slopes(values, [value], (0,), generator(session.seed, Stream.CAPTURED))
    # Near a kink or a jump of an output, its finite difference does not estimate a slope.
    sure = found.matrix.abs() > 10 * found.error
    return Captured(held.name, size(found.matrix[sure]))


# --------------------------------------------------------------------------------------------------
# Find tensors that are stored as attributes of ctx, where the engine does not track them.
# --------------------------------------------------------------------------------------------------


def on_ctx(session: Session, evidence: Evidence) -> Evidence:
    """Find tensors that are stored as attributes of a ctx in the graph."""
    run = attempt(session.run)
    if isinstance(run, Failure):
        return evidence
    known = memory(thing for _, thing in session.subject.around.things)
    found = {}
    for node in custom_nodes(run.tensors):
        if node._forward_cls.__module__.startswith("torch._"):  # PyTorch's own implementation
            continue
        for name, tensor in _tensors_on(node):
            whose = _whose(tensor, node, run)
            if whose.role or (tensor.numel() > 1 and not memory([tensor]) & known):
                found[node._forward_cls.__name__, name] = whose
    told = (
        OnCtx(name, function, whose.role, *_edited(session, evidence, whose))
        for (function, name), whose in sorted(found.items())
    )
    return replace(evidence, memory=replace(evidence.memory, on_ctx=tuple(told)))


@dataclass(frozen=True, order=True)
class _Whose:
    """The input or output of the call that owns the memory of a tensor.

    ``role`` is ``"input"``, ``"output"`` or ``""``. If ``position`` is -1, the tensor is an input
    or output of an inner Function, but not of the call.
    """

    role: str
    position: int = -1


def _whose(tensor: Tensor, node: Any, run: Run) -> _Whose:
    """Return the input or output that owns a tensor's memory, if the graph reveals it."""
    own_output = tensor.grad_fn is node
    for role, among in (("input", run.args), ("output", run.tensors)):
        if own_output and role == "input":
            continue  # forward changed the input in place and returned it
        for position, value in enumerate(among):
            if isinstance(value, Tensor) and memory([value]) == memory([tensor]):
                return _Whose(role, position)
    if own_output:
        return _Whose("output")
    return _Whose("input" if tensor.requires_grad else "")


def _edited(session: Session, evidence: Evidence, whose: _Whose) -> tuple[str, Comparison | None]:
    """Change an input or output in place after ``forward``, and compare the gradients.

    A Function's caller could make the same change. Return the name of the changed tensor and the
    comparison.
    """
    k, as_input = whose.position, whose.role == "input"
    if k < 0:
        return "", None
    outputs = tuple(output_names(len(evidence.forward.outputs)))
    name = evidence.name(k) if as_input else outputs[k]

    def edit(run: Run) -> None:
        attempt(lambda: _exchange(run.args[k] if as_input else run.tensors[k]))

    plain = evidence.values.vjps[RANDOM]
    actual = replace(both_ways(session, plain.grad_outputs, between=edit), outputs=())
    shown = f"`{name}`" if as_input else name
    how = f"when {shown} is changed in place after `forward`"
    return name, compare(evidence, "edited", how, actual, Pass(grads=plain.grads))


def _exchange(tensor: Tensor) -> None:
    """Overwrite a tensor in place with other valid values."""
    rolled = tensor.detach().flatten().roll(1).view(tensor.shape)
    if same_bytes(rolled, tensor.detach()) and is_float(tensor):
        rolled = 1.25 * tensor.detach()
    with torch.no_grad():
        tensor.copy_(rolled)


def _tensors_on(node: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that are attributes of a ctx, except for random generator states."""
    for key, value in vars(node).items():
        for name, tensor in _tensors_in(f"ctx.{key}", value):
            if tensor.numel() and not _is_random_state(tensor):
                yield name, tensor


def _tensors_in(
    name: str, value: Any, inside: frozenset[int] = frozenset()
) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor in a value, with its name. The value may be a list, tuple or mapping.

    ``inside`` holds the ids of the enclosing containers, because a container may contain itself.
    """
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping | list | tuple) and id(value) not in inside:
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield from _tensors_in(f"{name}[{shown(key)}]", item, inside | {id(value)})


def _is_random_state(tensor: Tensor) -> bool:
    """Return whether a tensor looks like the state of a random generator.

    A ctx can keep this state so that ``backward`` draws the same numbers as ``forward``.
    """
    sizes = (torch.default_generator.get_state().numel(), 16)  # for the CPU, and for a CUDA device
    return tensor.dtype == torch.uint8 and tensor.dim() == 1 and tensor.numel() in sizes
