"""Put the truth beside what was seen: from differences, from a reference, or from a surrogate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.calls import as_tuple, fresh, is_float
from autograd_course.doctor.diagnosis import DoctorError
from autograd_course.doctor.differences import as_real, flat
from autograd_course.doctor.evidence import Columns, Evidence, Expected
from autograd_course.doctor.guard import reseed

RELATIVE = (
    1e-6  # of a gradient's largest element: well above what float64 loses, below any real bug
)
MOST_CUTS = 12  # interior nodes of a reference that are held fixed one by one and in pairs

Reference = Callable[..., Any]


def establish(
    evidence: Evidence, reference: Reference | None, surrogate: Reference | None, seed: int
) -> Evidence:
    """Return the evidence with the expected gradients filled in."""
    if not evidence.pulls and reference is None:
        return evidence
    declared = surrogate or reference
    graph = _Graph(declared, evidence, seed) if declared else None
    expected = {
        name: tuple(_expected(evidence, graph, pull.grad_outputs))
        for name, pull in evidence.pulls.items()
        if name in ("random", "other", "ones") or name.startswith("only")
    }
    evidence = replace(evidence, expected=expected, surrogate=surrogate is not None)
    if reference is not None:
        outputs = (
            graph if surrogate is None and graph else _Graph(reference, evidence, seed)
        ).outputs
        evidence = replace(evidence, reference_outputs=tuple(out.detach() for out in outputs))
    if graph is not None and "random" in evidence.pulls:
        cotangents = evidence.pulls["random"].grad_outputs
        evidence = replace(evidence, reference_grads=tuple(graph.gradients(cotangents)))
        if _differs(evidence):
            evidence = replace(evidence, held_fixed=dict(graph.held_fixed(cotangents)))
    return evidence


def _expected(
    evidence: Evidence, graph: _Graph | None, grad_outputs: Sequence[Tensor | None]
) -> Iterator[Expected]:
    """Yield the truth for each wanted input; a point that is not smooth is left out, as NaN."""
    outputs = [out for out in evidence.forward.outputs if is_float(out)]
    g = flat(
        [
            torch.zeros_like(o) if g is None else g
            for o, g in zip(outputs, grad_outputs, strict=True)
        ]
    )
    exact = graph.gradients(grad_outputs) if graph else [None] * len(evidence.wanted)
    for position, columns, known in zip(evidence.wanted, evidence.jacobian, exact, strict=True):
        like = evidence.inputs[position]
        yield (
            _from_reference(known, columns, like, graph)
            if known is not None
            else _from_columns(columns, g, like)
        )


def _from_columns(columns: Columns, g: Tensor, like: Tensor) -> Expected:
    value = torch.full((as_real(like).numel(),), torch.nan, dtype=torch.float64, device=like.device)
    tolerance = torch.zeros_like(value)
    index = columns.index.to(like.device)
    seen = columns.matrix.T @ g
    smooth = columns.smooth.to(like.device)
    value[index] = torch.where(smooth, seen, torch.nan)
    tolerance[index] = 3 * (columns.error.T @ g.abs())
    return Expected(_like(value, like), _like(tolerance, like).abs() + _floor(seen[smooth]))


def _from_reference(
    known: Tensor, columns: Columns, like: Tensor, graph: _Graph | None
) -> Expected:
    value = as_real(known).clone().reshape(-1)
    if graph is not None and not graph.surrogate:
        value[columns.index[~columns.smooth].to(like.device)] = torch.nan
    value = _like(value, like)
    return Expected(value, torch.full(like.shape, _floor(known)).double().to(like.device))


def _like(real: Tensor, like: Tensor) -> Tensor:
    """Return a flat real vector in the shape of a tensor, complex again if that is."""
    real = real.reshape(as_real(like).shape)
    return torch.view_as_complex(real) if like.is_complex() else real


def _floor(values: Tensor) -> float:
    finite = values[torch.isfinite(values)].abs()
    return RELATIVE * (finite.max().item() if finite.numel() else 0.0) + 1e-12


def _differs(evidence: Evidence) -> bool:
    pull = evidence.pulls["random"]
    if pull.failure or not pull.grads:
        return False
    return any(
        got is None or bool(((got - truth.value).abs() > truth.tolerance).any())
        for got, truth in zip(pull.grads, evidence.expected["random"], strict=True)
    )


class _Graph:
    """A differentiable callable, run once on the evidence's inputs; its graph serves many pulls."""

    def __init__(self, call: Reference, evidence: Evidence, seed: int) -> None:
        self.surrogate = evidence.surrogate
        self.leaves, args = fresh(evidence.inputs, evidence.wanted)
        reseed(seed)
        try:
            self.outputs = [o for o in as_tuple(call(*args)) if isinstance(o, Tensor)]
        except Exception as error:
            raise DoctorError(
                f"the reference raised {type(error).__name__} on these inputs: {error}"
            ) from error
        self.floats = [out for out in self.outputs if is_float(out)]

    def gradients(self, grad_outputs: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the gradient of every leaf, zeros where the graph does not reach it."""
        pairs = [
            (out, g)
            for out, g in zip(self.floats, grad_outputs, strict=False)
            if g is not None and out.requires_grad and out.shape == g.shape
        ]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in self.leaves]
        outputs, gs = zip(*pairs, strict=True)
        return [
            grad.detach()
            for grad in torch.autograd.grad(
                outputs, self.leaves, gs, retain_graph=True, materialize_grads=True
            )
        ]

    def held_fixed(
        self, grad_outputs: Sequence[Tensor | None]
    ) -> Iterator[tuple[str, tuple[Tensor | None, ...]]]:
        """Yield what the gradient would be if some interior results were constants."""
        nodes = list(self._interior())
        if len(nodes) > MOST_CUTS:
            return
        singles = [(node,) for node in nodes]
        for cut in [*singles, *combinations(nodes, 2)]:
            handles = [node.register_prehook(_zeros) for node in cut]
            try:
                name = " and ".join(_operation(node) for node in cut)
                yield name, tuple(self.gradients(grad_outputs))
            finally:
                for handle in handles:
                    handle.remove()

    def _interior(self) -> Iterator[Any]:
        """Yield the graph's nodes below the outputs, leaves and their clones left out."""
        seen = {out.grad_fn for out in self.floats}
        level = [parent for node in seen if node for parent, _ in node.next_functions]
        while level:
            node = level.pop()
            if node is None or node in seen or not node.next_functions:
                continue
            seen.add(node)
            level += [parent for parent, _ in node.next_functions]
            if not any(hasattr(parent, "variable") for parent, _ in node.next_functions):
                yield node


def _zeros(grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if g is None else torch.zeros_like(g) for g in grads)


_IN_WORDS = {
    "add": "a sum",
    "sub": "a difference",
    "rsub": "a difference",
    "mul": "a product",
    "div": "a quotient",
    "pow": "a power",
    "mm": "a matrix product",
    "bmm": "a matrix product",
}


def _operation(node: Any) -> str:
    """Return a node's operation as the user wrote it: ``MeanBackward1`` is ``mean``."""
    name: str = node.name().rstrip("0123456789").removesuffix("Backward").lower()
    return _IN_WORDS.get(name, name)
