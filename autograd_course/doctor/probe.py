"""Run a Function on one set of inputs and bring back evidence; judge nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.calls import as_tuple, attempt, fresh, is_float, same_bytes
from autograd_course.doctor.differences import flat, jacobian
from autograd_course.doctor.evidence import Evidence, Failure, Forward, Pull, Raw, Variant
from autograd_course.doctor.guard import reseed
from autograd_course.doctor.instrument import Watched
from autograd_course.doctor.subject import Subject

FAR = 1000.0  # a cotangent this much longer shows a clip that an ordinary one stays under


def probe(subject: Subject, inputs: Sequence[Any], wanted: Sequence[int], seed: int) -> Evidence:
    """Examine a subject on float64 inputs; the probe stops where going on would mean nothing."""
    return _Probe(subject, tuple(inputs), tuple(wanted), seed).evidence()


class _Probe:
    """The runs that make up one piece of evidence; every run has new copies and the same seed."""

    def __init__(
        self, subject: Subject, inputs: tuple[Any, ...], wanted: tuple[int, ...], seed: int
    ) -> None:
        self.subject, self.inputs, self.wanted, self.seed = subject, inputs, wanted, seed
        self.watched = Watched(subject.function) if subject.function else None
        self.call: Callable[..., Any] = self.watched or subject.call
        self.rng = torch.Generator().manual_seed(seed)

    def evidence(self) -> Evidence:
        """Run everything that earlier runs leave meaningful."""
        forward = self.forward()
        found = Evidence(
            subject=self.subject.name,
            inputs=self.inputs,
            parameters=self.subject.parameters,
            wanted=self.wanted,
            is_function=self.subject.function is not None,
            instance_methods=self.subject.instance_methods,
            backward_source=self.subject.backward_source,
            forward=forward,
        )
        if forward.failure or not any(is_float(output) for output in forward.outputs):
            return found
        found = replace(found, jacobian=self.jacobian())
        if not any(forward.requires_grad):
            return found
        cotangents = dict(self.cotangents(forward.outputs))
        if forward.whole:
            raw = self.raw(cotangents["random"])
            found = replace(found, raw=raw, variants=self.variants(cotangents["random"]))
            if raw.failure:
                return found
        pulls: dict[str, Pull] = {}
        for name, grad_outputs in cotangents.items():
            pulls[name] = self.pull(grad_outputs)
            if name == "random" and pulls[name].failure:
                break
        return replace(found, pulls=pulls)

    def run(self, args: Sequence[Any], call: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Call the subject with the probe's seed, so that its random draws repeat."""
        reseed(self.seed)
        return as_tuple((call or self.call)(*args))

    def forward(self) -> Forward:
        """Run forward once and note what it did to its inputs and its ctx."""
        _, args = fresh(self.inputs, self.wanted)
        before = [a.detach().clone() if isinstance(a, Tensor) else a for a in args]
        returned = attempt(lambda: self.run(args))
        log = self.watched.log if self.watched else None
        if isinstance(returned, Failure):
            return Forward(failure=returned, read_saved=bool(log and log.read_saved_in_forward))
        tensors = tuple(value for value in returned if isinstance(value, Tensor))
        nodes = {type(t.grad_fn): t.grad_fn for t in tensors if t.grad_fn is not None}
        dirty = _positions(log.dirty, args) if log else ()
        saved = tuple(t for t in log.saved if isinstance(t, Tensor)) if log else ()
        return Forward(
            outputs=tuple(t.detach().clone() for t in tensors),
            kinds=tuple(type(value).__name__ for value in returned),
            requires_grad=tuple(t.requires_grad for t in tensors),
            custom_node=any(_custom_nodes(nodes.values())),
            whole=self.watched is not None and any(_custom_nodes(nodes.values(), depth=1)),
            changed=tuple(
                i
                for i, (was, now) in enumerate(zip(before, args, strict=True))
                if isinstance(was, Tensor) and not same_bytes(was, now.detach())
            ),
            dirty=dirty,
            dirty_returned=tuple(i for i in dirty if any(args[i] is t for t in tensors)),
            views=tuple(_shared_memory(tensors, args, dirty)),
            marked_non_differentiable=_positions(log.non_differentiable, tensors) if log else (),
            saved=tuple(t.detach().clone() for t in saved),
            read_saved=bool(log and log.read_saved_in_forward),
        )

    def jacobian(self) -> Any:
        """Differentiate forward by differences, without any graph."""

        def values(args: Sequence[Any]) -> Tensor:
            with torch.no_grad():
                return flat([out for out in self.run(args, self.subject.call) if is_float(out)])

        return jacobian(values, self.inputs, self.wanted, self.rng)

    def cotangents(self, outputs: Sequence[Tensor]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the named cotangents: related ones, so that linearity can be judged."""
        differentiable = [output for output in outputs if is_float(output)]
        one, two = self.draw(differentiable), self.draw(differentiable)
        yield "random", one
        yield "other", two
        yield "sum", tuple(a + b for a, b in zip(one, two, strict=True))
        yield "double", tuple(2 * g for g in one)
        yield "negative", tuple(-g for g in one)
        yield "far", tuple(FAR * g for g in one)
        yield "zero", tuple(torch.zeros_like(g) for g in one)
        yield "ones", tuple(torch.ones_like(g) for g in one)
        if len(differentiable) > 1:
            for k in range(len(differentiable)):
                yield f"only {k}", tuple(g if j == k else None for j, g in enumerate(one))

    def draw(self, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Draw a contiguous standard normal cotangent for each output."""
        return tuple(
            torch.randn(out.shape, dtype=out.dtype, generator=self.rng).to(out.device)
            for out in outputs
        )

    def pull(self, grad_outputs: tuple[Tensor | None, ...]) -> Pull:
        """Send cotangents through the engine."""

        def run() -> tuple[Tensor | None, ...]:
            leaves, args = fresh(self.inputs, self.wanted)
            outputs = [out for out in self.run(args) if is_float(out)]
            pairs = [
                (out, g.clone())
                for out, g in zip(outputs, grad_outputs, strict=True)
                if g is not None and out.requires_grad
            ]
            if not pairs:
                return tuple(None for _ in leaves)
            out, g = zip(*pairs, strict=True)
            return torch.autograd.grad(out, leaves, g, allow_unused=True)

        grads = attempt(run)
        if isinstance(grads, Failure):
            return Pull(grad_outputs, failure=grads)
        return Pull(grad_outputs, tuple(g if g is None else g.detach() for g in grads))

    def raw(
        self,
        grad_outputs: Sequence[Tensor],
        move: Callable[[Tensor], Tensor] = lambda t: t,
    ) -> Raw:
        """Call ``backward`` itself on the graph's own node, as the engine would."""
        _, args = fresh(self.inputs, self.wanted, move)
        returned = self.run(args)
        outputs = [out for out in returned if isinstance(out, Tensor)]
        node = next(out.grad_fn for out in outputs if out.grad_fn is not None)
        moved = iter(move(g).clone() for g in grad_outputs)
        gs = [next(moved) if is_float(out) else torch.zeros_like(out) for out in outputs]
        gs_before = [g.clone() for g in gs]
        saved = attempt(lambda: [t for t in node.saved_tensors if isinstance(t, Tensor)])
        saved = [] if isinstance(saved, Failure) else saved
        saved_before = [t.detach().clone() for t in saved]
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
            changed_saved=_changed(saved_before, saved),
        )

    def variants(self, grad_outputs: Sequence[Tensor]) -> tuple[Variant, ...]:
        """Repeat the direct call in other dtypes, and on the ``meta`` device without data."""
        moves: dict[str, Callable[[Tensor], Tensor]] = {
            "float64": lambda t: t,
            "float32": lambda t: t.to(torch.complex64 if t.is_complex() else torch.float32),
            "bfloat16": lambda t: t if t.is_complex() else t.to(torch.bfloat16),
        }
        found = [self.variant(n, grad_outputs, move, _dtype_name) for n, move in moves.items()]
        if all(is_float(v) for v in self.inputs if isinstance(v, Tensor)):
            found.append(self.variant("meta", grad_outputs, lambda t: t.to("meta"), _device_name))
        return tuple(v for v in found if v is not None)

    def variant(
        self,
        name: str,
        grad_outputs: Sequence[Tensor],
        move: Callable[[Tensor], Tensor],
        describe: Callable[[Tensor], str],
    ) -> Variant | None:
        """Return what the raw gradients were, or ``None`` where forward does not run this way."""
        _, args = fresh(self.inputs, self.wanted, move)
        if isinstance(attempt(lambda: self.run(args)), Failure):
            return None
        raw = attempt(lambda: self.raw(grad_outputs, move))
        failure = raw if isinstance(raw, Failure) else raw.failure
        if failure or isinstance(raw, Failure):
            return Variant(name, failure=failure)
        pairs = zip(args, raw.grads, strict=False)
        kept = [(a, g) for i, (a, g) in enumerate(pairs) if i in self.wanted and g is not None]
        return Variant(
            name,
            wanted=tuple(describe(a) for a, _ in kept),
            got=tuple(describe(g) for _, g in kept),
        )


def _custom_nodes(nodes: Any, depth: int = 10_000) -> Iterator[Any]:
    """Yield the custom Functions' nodes among some nodes and, to a depth, their ancestors."""
    seen: set[Any] = set()
    level = list(nodes)
    while level and depth:
        depth -= 1
        following = []
        for node in level:
            if node is None or node in seen:
                continue
            seen.add(node)
            if hasattr(node, "_forward_cls"):
                yield node
            following += [parent for parent, _ in node.next_functions]
        level = following


def _positions(marked: Sequence[Any], among: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, value in enumerate(among) if any(value is m for m in marked))


def _shared_memory(
    outputs: Sequence[Tensor], args: Sequence[Any], dirty: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs (output, input) that lie in the same memory without being marked dirty."""
    for i, output in enumerate(outputs):
        for j, arg in enumerate(args):
            if isinstance(arg, Tensor) and j not in dirty and output.numel():
                shares = output.untyped_storage().data_ptr() == arg.untyped_storage().data_ptr()
                if shares and output.device.type != "meta":
                    yield i, j


def _changed(before: Sequence[Tensor], after: Sequence[Tensor]) -> tuple[int, ...]:
    if any(t.is_meta for t in before):
        return ()
    return tuple(
        i
        for i, (was, now) in enumerate(zip(before, after, strict=True))
        if not same_bytes(was, now.detach())
    )


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _device_name(tensor: Tensor) -> str:
    return tensor.device.type
