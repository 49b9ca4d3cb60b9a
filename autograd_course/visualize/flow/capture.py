"""Catching values in forward and gradients in backward, as they pass."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autograd_course.visualize.flow.graph import GraphNode, is_leaf, operation
from autograd_course.visualize.flow.trace import Summaries
from autograd_course.visualize.kit.summary import Summary

# Operations that treat every element by itself; for these gradient / grad_output is a derivative.
ELEMENTWISE = frozenset(
    {"Abs", "Acos", "Add", "Asin", "Atan", "Celu", "Clamp", "ClampMax", "ClampMin", "Clone", "Cos"}
    | {"Cosh", "Div", "Elu", "Erf", "Erfc", "Exp", "Expm1", "Gelu", "Hardswish", "Hardtanh"}
    | {"LeakyRelu", "Log", "Log10", "Log1P", "Log2", "LogSigmoid", "Maximum", "Minimum", "Mul"}
    | {"Neg", "Pow", "Reciprocal", "Relu", "Rsqrt", "Rsub", "Sigmoid", "Silu", "Sin", "Sinh"}
    | {"Softplus", "Sqrt", "Sub", "Tan", "Tanh", "Threshold", "ToCopy", "Where"}
)


class ForwardValues(TorchDispatchMode):
    """Notes every differentiable tensor that an operation reads, by the node that made it.

    A tensor between two nodes is read by the second one's forward, whoever wrote that; at this
    moment it still has the value that the graph means, whatever is done in place later.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of: dict[tuple[GraphNode, int], Summary] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                self.note(leaf)
        return func(*args, **(kwargs or {}))

    def note(self, tensor: Tensor) -> None:
        """Remember the tensor's value, unless it has no node or is known."""
        if (node := tensor.grad_fn) is not None and (node, tensor.output_nr) not in self.of:
            self.of[node, tensor.output_nr] = Summary.of(tensor)


class BackwardGradients:
    """Notes, by hooks on every node, what each receives and sends, and who comes when."""

    def __init__(self) -> None:
        self.received: dict[GraphNode, Summaries] = {}
        self.sent: dict[GraphNode, Summaries] = {}
        self.factors: dict[GraphNode, Summaries] = {}
        self.running: GraphNode | None = None
        self._arrived: list[Tensor | None] = []

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

    def _receive(self, node: GraphNode, grad_outputs: Sequence[Tensor | None]) -> None:
        # Copied before backward runs: it might change them in place.
        self.running = node
        self._arrived = [None if g is None else g.detach().clone() for g in grad_outputs]
        self.received[node] = summaries(grad_outputs)

    def _send(self, node: GraphNode, grad_inputs: Sequence[Tensor | None], _: Any) -> None:
        self.sent[node] = summaries(grad_inputs)
        self.factors[node] = tuple(local_factor(node, g, self._arrived) for g in grad_inputs)
        self._arrived = []


def summaries(tensors: Sequence[Tensor | None]) -> Summaries:
    """Summarize each tensor; what is undefined stays ``None``."""
    return tuple(None if tensor is None else Summary.of(tensor) for tensor in tensors)


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
    if not usable or not bool(torch.all(grad_output.isfinite() & (grad_output != 0))):
        return None
    return Summary.of(sent / grad_output.reshape(sent.shape))
