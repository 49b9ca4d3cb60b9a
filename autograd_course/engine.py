"""Run backward without the slow imports of ``torch.autograd.grad``."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.autograd import Variable


def run_backward(
    outputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    *,
    allow_unused: bool = True,
    retain_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``inputs``, or add the gradient of each leaf to its ``.grad``.

    This function is equivalent to ``torch.autograd.grad``, or to ``torch.autograd.backward`` if
    ``inputs`` is ``None``. It does not check the shapes of ``grad_outputs``, because PyTorch's
    shape check imports sympy. That import takes longer than drawing a picture or grading an answer.

    Args:
        outputs: Tensors that have a graph.
        grad_outputs: One gradient for each output, with the same shape.
        inputs: The tensors whose gradients the function returns. If ``inputs`` is ``None``, the
            function returns nothing and adds the gradient of each leaf to its ``.grad``.
        allow_unused: Whether to return ``None`` for an input that the outputs do not depend on,
            instead of raising an error.
        retain_graph: Whether to keep the graph for another backward pass.

    Returns:
        One gradient for each input.

    Raises:
        RuntimeError: ``inputs`` is empty, or the backward pass raises an error.

    Example:
        >>> import torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> run_backward([x * x], [torch.tensor(1.0)], [x])
        (tensor(6.),)
    """
    if inputs is not None and not inputs:
        raise RuntimeError("inputs is empty: name the tensors whose gradients you want")
    return Variable._execution_engine.run_backward(
        tuple(outputs),
        tuple(grad_outputs),
        retain_graph,
        False,  # autograd does not record the backward pass
        tuple(inputs or ()),
        allow_unused,
        inputs is None,
    )
