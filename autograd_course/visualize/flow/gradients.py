"""Catching gradients in backward, as they pass from node to node."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.flow.trace import Summaries
from autograd_course.visualize.kit.formatting import Summary
from autograd_course.visualize.kit.graph import GraphNode, is_leaf, operation, producers

# Operations that treat every element by itself; for these gradient / grad_output is a derivative.
ELEMENTWISE = frozenset(
    {"Abs", "Acos", "Add", "Asin", "Atan", "Celu", "Clamp", "ClampMax", "ClampMin", "Clone", "Cos"}
    | {"Cosh", "Div", "Elu", "Erf", "Erfc", "Exp", "Expm1", "Gelu", "Hardswish", "Hardtanh"}
    | {"LeakyRelu", "Log", "Log10", "Log1P", "Log2", "LogSigmoid", "Maximum", "Minimum", "Mul"}
    | {"Neg", "Pow", "Reciprocal", "Relu", "Rsqrt", "Rsub", "Sigmoid", "Silu", "Sin", "Sinh"}
    | {"Softplus", "Sqrt", "Sub", "Tan", "Tanh", "Threshold", "ToCopy", "Where"}
)


class BackwardGradients:
    """Notes, by hooks on every node, what each receives and sends, and who comes when.

    ``before`` has an entry where what a node receives is not what its consumers sent: a hook came
    between. PyTorch lists no node's hooks; this finds all that change something.
    """

    def __init__(self) -> None:
        self.received: dict[GraphNode, Summaries] = {}
        self.sent: dict[GraphNode, Summaries] = {}
        self.factors: dict[GraphNode, Summaries] = {}
        self.before: dict[GraphNode, Summaries] = {}
        self.running: GraphNode | None = None
        self._arrived: list[Tensor | None] = []
        self._waiting: dict[GraphNode, dict[int, Tensor]] = {}

    @contextmanager
    def watching(self, nodes: Sequence[GraphNode]) -> Iterator[None]:
        """Hook all nodes inside a ``with`` block, and unhook them after."""
        handles = []
        for node in (node for node in nodes if not is_leaf(node)):
            handles.append(node.register_prehook(partial(self._receive, node)))
            handles.append(node.register_hook(partial(self._send, node)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._arrived = []

    @torch.no_grad()
    def add(self, node: GraphNode, output: int, gradient: Tensor | None) -> None:
        """Add up what is on its way to an output of a node."""
        if gradient is not None:
            there = self._waiting.setdefault(node, {})
            there[output] = there[output] + gradient if output in there else gradient

    def arrive(self, node: GraphNode, gradients: Sequence[Tensor | None]) -> None:
        """Compare what has come to a node with what was sent to it."""
        sent = self._waiting.pop(node, {})
        pairs = [(sent.get(output), gradient) for output, gradient in enumerate(gradients)]
        if any(changed(was, now) for was, now in pairs):
            self.before[node] = summaries(
                [was if changed(was, now) else None for was, now in pairs]
            )

    def _receive(self, node: GraphNode, grad_outputs: Sequence[Tensor | None]) -> None:
        # Copied before backward runs: it might change them in place.
        self.running = node
        self._arrived = [None if g is None else g.detach().clone() for g in grad_outputs]
        self.received[node] = summaries(grad_outputs)
        self.arrive(node, grad_outputs)

    def _send(self, node: GraphNode, grad_inputs: Sequence[Tensor | None], _: Any) -> None:
        self.sent[node] = summaries(grad_inputs)
        self.factors[node] = tuple(local_factor(node, g, self._arrived) for g in grad_inputs)
        self._arrived = []
        for argument, source, output in producers(node):
            self.add(source, output, grad_inputs[argument] if argument < len(grad_inputs) else None)


@torch.no_grad()
def changed(was: Tensor | None, now: Tensor | None) -> bool:
    """Tell two gradients apart, but for what another order of a sum can do."""
    if was is None or now is None:
        return was is not now and was is not None
    if was.layout != now.layout or was.shape != now.shape:
        return True
    if was is now or (was.layout == torch.strided and torch.equal(was, now)):
        return False
    was, now = (was.to_dense(), now.to_dense()) if was.is_sparse else (was, now)
    tolerance = 8 * torch.finfo(now.dtype).eps
    largest = float(now.abs().nan_to_num(0, 0, 0).max()) if now.numel() else 0.0
    return not torch.allclose(was, now, tolerance, tolerance * largest, equal_nan=True)


def summaries(tensors: Sequence[Tensor | None]) -> Summaries:
    """Summarize each tensor; what is undefined stays ``None``."""
    return tuple(None if tensor is None else Reading.of(tensor) for tensor in tensors)


@torch.no_grad()
def local_factor(
    node: GraphNode, sent: Tensor | None, received: Sequence[Tensor | None]
) -> Summary | None:
    """Return ``sent / received`` where that is the node's local derivative, else ``None``."""
    if sent is None or len(received) != 1 or (grad_output := received[0]) is None:
        return None
    single = sent.numel() == grad_output.numel() == 1
    elementwise = operation(node) in ELEMENTWISE and sent.shape == grad_output.shape
    usable = single or elementwise
    if not usable or not _divides(grad_output):
        return None
    return Reading.of(sent / grad_output.reshape(sent.shape))


def _divides(gradient: Tensor) -> bool:
    """Tell whether every element can be divided by."""
    if gradient.numel() == 1 and not gradient.is_complex():
        return math.isfinite(value := gradient.item()) and value != 0
    return bool(torch.all(gradient.isfinite() & (gradient != 0)))
