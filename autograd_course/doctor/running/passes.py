"""The passes that a probe is made of: forward once, backward directly, backward by the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Failure, Forward, Pull, Raw, Variant
from autograd_course.doctor.running.calls import attempt, fresh, is_float, is_plain, same_bytes
from autograd_course.doctor.running.operations import OneDevice, Recording, memory
from autograd_course.doctor.running.session import Arrange, Move, Run, Session, stay


def forward_pass(session: Session) -> Forward:
    """Run forward once and note what it did to its inputs and its ctx."""
    leaves, args = fresh(session.inputs, session.wanted)
    before = [a.detach().clone() if isinstance(a, Tensor) else a for a in args]
    returned = attempt(lambda: session.call(args))
    log = session.log
    if isinstance(returned, Failure):
        return Forward(failure=returned, read_saved=log.read_saved_in_forward)
    tensors = Run(leaves, args, returned).tensors
    if any(t.layout is not torch.strided for t in tensors):
        raise DoctorError("an output is sparse, which is not examined: let fn return to_dense().")
    if any(t.is_meta for t in tensors):
        raise DoctorError("an output is on the meta device: let fn return it where its inputs are.")
    dirty = _positions(log.dirty, args)
    return Forward(
        outputs=tuple(t.detach().clone() for t in tensors),
        kinds=tuple(type(value).__name__ for value in returned),
        requires_grad=tuple(t.requires_grad for t in tensors),
        custom_node=any(custom_nodes(tensors)),
        whole=session.subject.function is not None and any(custom_nodes(tensors, depth=1)),
        changed=_changed(before, args),
        dirty=dirty,
        written=_written(session) if set(dirty) - set(_changed(before, args)) else dirty,
        dirty_returned=tuple(i for i in dirty if any(args[i] is t for t in tensors)),
        views=tuple(_shared_memory(tensors, args, dirty)),
        marked_non_differentiable=_positions(log.non_differentiable, tensors),
        saved=tuple(t.detach().clone() for t in log.saved if isinstance(t, Tensor)),
        read_saved=log.read_saved_in_forward,
    )


@dataclass(frozen=True)
class Pass:
    """One forward and one backward pass: outputs and gradients, or where and how it failed."""

    outputs: tuple[Tensor, ...] = ()  # the floating ones
    grads: tuple[Tensor | None, ...] = ()
    failure: Failure | None = None
    stage: str = ""  # "forward" or "backward", where it failed


Cotangents = Sequence[Tensor | None] | Callable[[Sequence[Tensor]], Sequence[Tensor | None]]


def both_ways(
    session: Session,
    cotangents: Cotangents,
    move: Move = stay,
    *,
    inputs: Sequence[Any] | None = None,
    wanted: Sequence[int] | None = None,
    arrange: Arrange | None = None,
    between: Callable[[Run], object] | None = None,
) -> Pass:
    """Run forward, then send cotangents back through the engine.

    An output whose cotangent is ``None`` goes unused. ``cotangents`` may be a function of the
    outputs; what it returns is sent as it is, a sequence of tensors is copied first. ``between`` is
    called with the run after forward and before backward.
    """
    run = attempt(lambda: session.run(move, inputs=inputs, wanted=wanted, arrange=arrange))
    if isinstance(run, Failure):
        return Pass(failure=run, stage="forward")
    outputs = tuple(out.detach().clone() for out in run.floats)
    if between is not None:
        between(run)
    gs = cotangents(run.floats) if callable(cotangents) else copies(cotangents)
    grads = attempt(lambda: gradients(run, gs))
    if isinstance(grads, Failure):
        return Pass(outputs, failure=grads, stage="backward")
    return Pass(outputs, tuple(g if g is None else g.detach() for g in grads))


def gradients(
    run: Run,
    grad_outputs: Sequence[Tensor | None],
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """Send cotangents back through the graph of a run to its leaves."""
    pairs = [
        (out, g)
        for out, g in zip(run.floats, grad_outputs, strict=True)
        if g is not None and out.requires_grad
    ]
    if not pairs or not run.leaves:
        return tuple(None for _ in run.leaves)
    outputs, gs = zip(*pairs, strict=True)
    grads = torch.autograd.grad(
        outputs,
        run.leaves,
        gs,
        allow_unused=True,
        retain_graph=retain_graph or create_graph,
        create_graph=create_graph,
    )
    return tuple(map(dense, grads))


def dense(grad: Tensor | None) -> Tensor | None:
    """Return a sparse gradient, as of an embedding's rows, as a dense one; others as they are."""
    return grad if grad is None or grad.layout is torch.strided else grad.to_dense()


def copies(tensors: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Return copies, so that a backward that changes its grad_output changes nothing of ours."""
    return tuple(None if t is None else t.clone() for t in tensors)


def engine_pass(
    session: Session, grad_outputs: tuple[Tensor | None, ...], *, interleaved: bool = False
) -> Pull:
    """Send cotangents through the engine and note the gradients.

    ``interleaved`` runs forward once more, on other values, before backward runs.
    """

    def again(run: Run) -> None:
        attempt(session.other().run)

    done = both_ways(session, grad_outputs, between=again if interleaved else None)
    return Pull(grad_outputs, done.grads, done.failure)


def drawn(outputs: Sequence[Tensor], rng: torch.Generator) -> tuple[Tensor, ...]:
    """Draw a contiguous standard normal cotangent for each output."""
    return tuple(
        torch.randn(out.shape, dtype=out.dtype, generator=rng).to(out.device) for out in outputs
    )


def direct_call(
    session: Session, grad_outputs: Sequence[Tensor], move: Move = stay, run: Run | None = None
) -> Raw:
    """Call ``backward`` itself on the graph's own node, as the engine does before it mends."""
    run = run or session.run(move)
    node: Any = next(out.grad_fn for out in run.tensors if out.grad_fn is not None)
    gs = list(handed_over(run.returned, grad_outputs, move))
    saved = attempt(lambda: [t for t in node.saved_tensors if isinstance(t, Tensor)])
    held = [] if isinstance(saved, Failure) else saved
    gs_before = [g if g is None else g.clone() for g in gs]
    held_before = [t.detach().clone() for t in held]
    with torch.no_grad():
        got = attempt(lambda: node.apply(*gs))
    if isinstance(got, Failure):
        return Raw(failure=got)
    grads = got if isinstance(got, tuple) else (got,)
    return Raw(
        count=len(grads),
        grads=tuple(dense(g.detach()) if isinstance(g, Tensor) else None for g in grads),
        kinds=tuple(type(g).__name__ for g in grads),
        changed_grad_outputs=_changed(gs_before, gs),
        changed_saved=_changed(held_before, held),
        sparse=any(isinstance(g, Tensor) and g.layout is not torch.strided for g in grads),
    )


def handed_over(
    returned: Sequence[Any], grad_outputs: Sequence[Tensor], move: Move = stay
) -> Iterator[Tensor | None]:
    """Yield what the engine hands over: a cotangent, zeros for integers, None for the rest."""
    given = iter(grad_outputs)
    for output in returned:
        if is_float(output):
            yield move(next(given)).clone()
        else:
            yield torch.zeros_like(output) if isinstance(output, Tensor) else None


def variants(session: Session, grad_outputs: Sequence[Tensor], raw: Raw) -> tuple[Variant, ...]:
    """Repeat the direct call in other dtypes, and on the ``meta`` device without data.

    What an argument holds, as a module does its weights, would not come along: then do neither.
    """
    if not all(map(is_plain, session.inputs)):
        return (_variant("float64", session, session.inputs, raw, _dtype),)
    dtypes: dict[str, Move] = {
        "float32": lambda t: t.to(torch.complex64 if t.is_complex() else torch.float32)
    }
    # No complex numbers go with bfloat16: beside others, a real gradient takes their precision.
    if not any(value.is_complex() for value in (*session.inputs, *grad_outputs) if is_float(value)):
        dtypes["bfloat16"] = lambda t: t.to(torch.bfloat16)
    found: list[Variant | None] = [_variant("float64", session, session.inputs, raw, _dtype)]
    found += [_moved(name, session, grad_outputs, move, _dtype) for name, move in dtypes.items()]
    if all(is_float(value) for value in session.inputs if isinstance(value, Tensor)):
        found.append(_moved("meta", session, grad_outputs, lambda t: t.to("meta"), _device))
    return tuple(variant for variant in found if variant is not None)


def _moved(
    name: str,
    session: Session,
    grad_outputs: Sequence[Tensor],
    move: Move,
    describe: Callable[[Tensor], str],
) -> Variant | None:
    """Return what the raw gradients were, or ``None`` where forward does not run this way."""
    run = attempt(lambda: session.run(move))
    if isinstance(run, Failure):
        return None
    with OneDevice() if name == "meta" else nullcontext():
        raw = attempt(lambda: direct_call(session, grad_outputs, move, run))
    return _variant(name, session, run.args, raw, describe)


def _variant(
    name: str,
    session: Session,
    args: Sequence[Any],
    raw: Raw | Failure,
    describe: Callable[[Tensor], str],
) -> Variant:
    if isinstance(raw, Failure) or raw.failure:
        return Variant(name, failure=raw if isinstance(raw, Failure) else raw.failure)
    kept = [
        (arg, grad)
        for i, (arg, grad) in enumerate(zip(args, raw.grads, strict=False))
        if i in session.wanted and grad is not None
    ]
    return Variant(
        name, tuple(describe(arg) for arg, _ in kept), tuple(describe(grad) for _, grad in kept)
    )


def custom_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of custom Functions within a depth below the outputs."""
    return (node for node in graph_nodes(outputs, depth) if hasattr(node, "_forward_cls"))


def graph_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of the graph within a depth below the outputs."""
    seen: set[Any] = set()
    level: list[Any] = [out.grad_fn for out in outputs]
    while level and depth:
        fresh_nodes = {node for node in level if node is not None} - seen
        seen |= fresh_nodes
        yield from fresh_nodes
        level = [parent for node in fresh_nodes for parent, _ in node.next_functions]
        depth -= 1


def _written(session: Session) -> tuple[int, ...]:
    """Run forward once more and return the arguments that an operation of it writes to."""
    _, args = fresh(session.inputs, session.wanted)
    with Recording() as recording:
        attempt(lambda: session.call(args))
    touched = frozenset[torch.UntypedStorage]().union(*(o.writes for o in recording.operations))
    return tuple(i for i, a in enumerate(args) if isinstance(a, Tensor) and memory([a]) & touched)


def _positions(marked: Sequence[Any], among: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, value in enumerate(among) if any(value is m for m in marked))


def _shared_memory(
    outputs: Sequence[Tensor], args: Sequence[Any], dirty: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs (output, input) that lie in the same memory without being marked dirty."""
    for i, output in enumerate(outputs):
        for j, arg in enumerate(args):
            if not isinstance(arg, Tensor) or j in dirty or not output.numel():
                continue
            if output.untyped_storage().data_ptr() == arg.untyped_storage().data_ptr():
                yield i, j


def _changed(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the tensors that hold other values than before."""
    return tuple(
        i
        for i, (was, now) in enumerate(zip(before, after, strict=True))
        if isinstance(was, Tensor) and not was.is_meta and not same_bytes(was, now.detach())
    )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _device(tensor: Tensor) -> str:
    return tensor.device.type
