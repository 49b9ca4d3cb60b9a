"""What a backward needs that runs something again and lets autograd differentiate that."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge


def entered(value: Any, needs_gradient: bool) -> Any:
    """Return an argument for a second run, from which a gradient can be asked.

    In an ordinary backward it is cut off from what lies before it. Under ``create_graph`` (grad
    mode is on then) it stays connected, as the gradient itself is to be differentiated; a view of
    it still tells this run's use of it from all others.
    """
    if not needs_gradient:
        return value
    if not torch.is_grad_enabled():
        return value.detach().requires_grad_()
    return value.view_as(value)


def vector_jacobian_product(
    outputs: Iterable[Any], inputs: Sequence[Tensor], grad_outputs: Iterable[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Return ``Σ gᵀ ∂output/∂input`` for each input, ``None`` where no output depends on it.

    Outputs without a graph, and those whose ``g`` is ``None``, take no part.
    """
    pairs = [
        (output, g)
        for output, g in zip(outputs, grad_outputs, strict=True)
        if g is not None and isinstance(output, Tensor) and output.requires_grad
    ]
    if not pairs or not inputs:
        return (None,) * len(inputs)
    ys, gs = zip(*pairs, strict=True)
    again = torch.is_grad_enabled()
    return torch.autograd.grad(ys, inputs, gs, create_graph=again, allow_unused=True)


def not_given(outputs: Iterable[Any], inputs: Iterable[Tensor]) -> Tensor | None:
    """Return a leaf that outputs depend on, not through ``inputs`` nor as one of them."""
    # Nodes are compared, not tensors: saved-tensor hooks may hand back another tensor.
    seen = {get_gradient_edge(it).node for it in inputs}
    nodes = [it.grad_fn for it in outputs if isinstance(it, Tensor) and it.grad_fn is not None]
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad":
            return node.variable  # type: ignore[attr-defined, no-any-return]
        nodes += [behind for behind, _ in node.next_functions if behind is not None]
    return None
