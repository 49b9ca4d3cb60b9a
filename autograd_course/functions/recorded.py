"""Helpers for a backward that reruns a callable and lets autograd differentiate that run."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge


def entered(value: Any, needs_gradient: bool) -> Any:
    """Prepare an argument for the rerun, so that autograd can compute its gradient.

    In an ordinary backward pass, the result is detached from the earlier graph. Under
    ``create_graph``, grad mode is on and the gradient itself must be differentiable. The result is
    therefore a view that stays connected to the earlier graph. A gradient with respect to this view
    comes only from the rerun.
    """
    if not needs_gradient:
        return value
    if not torch.is_grad_enabled():
        return value.detach().requires_grad_()
    return value.view_as(value)


@contextmanager
def own_parameters(
    modules: Iterable[nn.Module], parameters: Iterable[Tensor]
) -> Iterator[list[Tensor]]:
    """Provide the parameters for the rerun, so that autograd can compute their gradients.

    In an ordinary backward pass, these are the modules' parameters themselves. Under
    ``create_graph``, the graph that produced the arguments can contain the same parameters. A
    gradient with respect to these parameters would then include that earlier graph. The modules
    therefore use views of their parameters during the rerun.
    """
    if not torch.is_grad_enabled():
        yield list(parameters)
        return
    views: dict[Tensor, Any] = {parameter: parameter.view_as(parameter) for parameter in parameters}
    inner = {module for outer in modules for module in outer.modules()}
    held = [(m, name, p) for m in inner for name, p in m._parameters.items() if p in views]
    for module, name, parameter in held:
        module._parameters[name] = views[parameter]
    try:
        yield list(views.values())
    finally:
        for module, name, parameter in held:
            module._parameters[name] = parameter


def vector_jacobian_product(
    outputs: Iterable[Any], inputs: Sequence[Tensor], grad_outputs: Iterable[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Return ``Σ gᵀ ∂output/∂input`` for each input, or None if no output depends on it.

    Skip outputs that have no graph and outputs whose ``g`` is None.
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
    """Return a leaf on which the outputs depend by a path that avoids ``inputs``, or None."""
    # Compare nodes instead of tensors, because saved-tensor hooks may return a different tensor.
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
