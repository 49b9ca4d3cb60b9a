"""The passes that a probe is made of: forward once, backward directly, backward by the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.calls import attempt, fresh, is_float, same_bytes
from autograd_course.doctor.evidence import Failure, Forward, Pull, Raw, Variant
from autograd_course.doctor.session import Move, Run, Session, stay


def forward_pass(session: Session) -> Forward:
    """Run forward once and note what it did to its inputs and its ctx."""
    leaves, args = fresh(session.inputs, session.wanted)
    before = [a.detach().clone() if isinstance(a, Tensor) else a for a in args]
    returned = attempt(lambda: session.call(args))
    log = session.log
    if isinstance(returned, Failure):
        return Forward(failure=returned, read_saved=log.read_saved_in_forward)
    tensors = Run(leaves, args, returned).tensors
    dirty = _positions(log.dirty, args)
    return Forward(
        outputs=tuple(t.detach().clone() for t in tensors),
        kinds=tuple(type(value).__name__ for value in returned),
        requires_grad=tuple(t.requires_grad for t in tensors),
        custom_node=any(_custom_nodes(tensors)),
        whole=session.subject.function is not None and any(_custom_nodes(tensors, depth=1)),
        changed=_changed(before, args),
        dirty=dirty,
        dirty_returned=tuple(i for i in dirty if any(args[i] is t for t in tensors)),
        views=tuple(_shared_memory(tensors, args, dirty)),
        marked_non_differentiable=_positions(log.non_differentiable, tensors),
        saved=tuple(t.detach().clone() for t in log.saved if isinstance(t, Tensor)),
        read_saved=log.read_saved_in_forward,
    )


def engine_pass(
    session: Session, grad_outputs: tuple[Tensor | None, ...], *, interleaved: bool = False
) -> Pull:
    """Send cotangents through the engine; an output whose cotangent is ``None`` goes unused.

    ``interleaved`` runs forward once more, on other values, before backward runs.
    """

    def pull() -> tuple[Tensor | None, ...]:
        run = session.run()
        if interleaved:
            attempt(lambda: session.run(lambda t: 0.5 * t))
        pairs = [
            (out, g.clone())
            for out, g in zip(run.floats, grad_outputs, strict=True)
            if g is not None and out.requires_grad
        ]
        if not pairs:
            return tuple(None for _ in run.leaves)
        outputs, gs = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, run.leaves, gs, allow_unused=True)

    grads = attempt(pull)
    if isinstance(grads, Failure):
        return Pull(grad_outputs, failure=grads)
    return Pull(grad_outputs, tuple(g if g is None else g.detach() for g in grads))


def direct_call(session: Session, grad_outputs: Sequence[Tensor], move: Move = stay) -> Raw:
    """Call ``backward`` itself on the graph's own node, as the engine does before it mends."""
    run = session.run(move)
    node: Any = next(out.grad_fn for out in run.tensors if out.grad_fn is not None)
    gs = list(_given(run.returned, grad_outputs, move))
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
        grads=tuple(g.detach() if isinstance(g, Tensor) else None for g in grads),
        kinds=tuple(type(g).__name__ for g in grads),
        changed_grad_outputs=_changed(gs_before, gs),
        changed_saved=_changed(held_before, held),
    )


def _given(
    returned: Sequence[Any], grad_outputs: Sequence[Tensor], move: Move
) -> Iterator[Tensor | None]:
    """Yield what the engine hands over: a cotangent, zeros for integers, None for the rest."""
    given = iter(grad_outputs)
    for output in returned:
        if is_float(output):
            yield move(next(given)).clone()
        else:
            yield torch.zeros_like(output) if isinstance(output, Tensor) else None


def variants(session: Session, grad_outputs: Sequence[Tensor]) -> tuple[Variant, ...]:
    """Repeat the direct call in other dtypes, and on the ``meta`` device without data."""
    dtypes: dict[str, Move] = {
        "float64": stay,
        "float32": lambda t: t.to(torch.complex64 if t.is_complex() else torch.float32),
        "bfloat16": lambda t: t if t.is_complex() else t.to(torch.bfloat16),
    }
    found = [_variant(session, n, grad_outputs, move, _dtype) for n, move in dtypes.items()]
    if all(is_float(value) for value in session.inputs if isinstance(value, Tensor)):
        found.append(_variant(session, "meta", grad_outputs, lambda t: t.to("meta"), _device))
    return tuple(variant for variant in found if variant is not None)


def _variant(
    session: Session,
    name: str,
    grad_outputs: Sequence[Tensor],
    move: Move,
    describe: Callable[[Tensor], str],
) -> Variant | None:
    """Return what the raw gradients were, or ``None`` where forward does not run this way."""
    run = attempt(lambda: session.run(move))
    if isinstance(run, Failure):
        return None
    raw = attempt(lambda: direct_call(session, grad_outputs, move))
    if isinstance(raw, Failure) or raw.failure:
        return Variant(name, failure=raw if isinstance(raw, Failure) else raw.failure)
    kept = [
        (arg, grad)
        for i, (arg, grad) in enumerate(zip(run.args, raw.grads, strict=False))
        if i in session.wanted and grad is not None
    ]
    return Variant(
        name, tuple(describe(arg) for arg, _ in kept), tuple(describe(grad) for _, grad in kept)
    )


def _custom_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of custom Functions within a depth below the outputs."""
    seen: set[Any] = set()
    level: list[Any] = [out.grad_fn for out in outputs]
    while level and depth:
        fresh_nodes = {node for node in level if node is not None} - seen
        seen |= fresh_nodes
        yield from (node for node in fresh_nodes if hasattr(node, "_forward_cls"))
        level = [parent for node in fresh_nodes for parent, _ in node.next_functions]
        depth -= 1


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
