"""Layers fused with the ReLU after them. The ReLU's backward needs only the signs of the output."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.packed_mask import pack_bits, unpack_bits


class LinearReLU(torch.autograd.Function):
    """Compute a linear layer and its ReLU in one Function.

    Forward: ``y = max(x Wᵀ + b, 0)``. Backward, with ``g = ∂L/∂y ∘ [y > 0]`` and the leading dims
    flattened to rows: ``∂L/∂x = g W``, ``∂L/∂W = gᵀ x``, ``∂L/∂b = Σ_rows g``. At the kink, the
    gradient is 0.

    Backward only needs to know where ``x Wᵀ + b`` is positive, and ``y`` is positive in the same
    places. Forward can therefore clamp ``x Wᵀ + b`` in place. Backward computes gradients only for
    inputs that require them. Twice differentiable.

    Args:
        x: ``(..., in)``, real floating-point dtype.
        weight: ``(out, in)``, with the same dtype as ``x``.
        bias: ``(out,)``, with the same dtype as ``x``, or None.
        keep: ``"output"`` saves ``y``, which costs nothing if the next layer saves its input.
            ``"sign"`` saves one bit per element, which is better if the next layer does not save
            its input. In both cases, the Function also saves ``x`` and ``weight``.

    Returns:
        ``(..., out)``.

    Raises:
        ValueError: ``keep`` is neither ``"output"`` nor ``"sign"``.

    Example:
        >>> import torch
        >>> LinearReLU.apply(torch.ones(1, 2), torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
        tensor([[2., 0.]])
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, keep: str = "output"
    ) -> Tensor:
        """Return ``max(x Wᵀ + b, 0)``. Save ``x``, ``W``, and the output or the output's signs."""
        if keep not in ("output", "sign"):
            raise ValueError(f"LinearReLU keeps 'output' or 'sign', not {keep!r}")
        y = torch.nn.functional.linear(x, weight, bias).clamp_(min=0)
        ctx.save_for_backward(x, weight, y if keep == "output" else pack_bits(y > 0))
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``x``, ``weight`` and ``bias``."""
        x, weight, kept = ctx.saved_tensors
        needs_x, needs_weight, *needs_rest = ctx.needs_input_grad
        g = _where_positive(kept, grad_output)
        rows = g.reshape(-1, weight.shape[0])
        found = (
            g @ weight if needs_x else None,
            rows.t() @ x.reshape(-1, weight.shape[1]) if needs_weight else None,
            rows.sum(0) if any(needs_rest) else None,
            None,
        )
        return found[: len(ctx.needs_input_grad)]


class AddReLU(torch.autograd.Function):
    """Compute a sum and its ReLU in one Function, as at the end of a residual block.

    Forward: ``y = max(a + b, 0)``. Backward: ``g = ∂L/∂y ∘ [y > 0]`` for both inputs, summed over
    the dims along which an input was broadcast.

    In ``torch.relu(a + b)``, the addition saves nothing and ``torch.relu`` saves its output ``y``.
    This Function saves the signs of ``y``, which take ``⌈n / 8⌉`` bytes for ``n`` elements. Forward
    allocates one tensor instead of two. Twice differentiable: the second derivative is 0.

    Args:
        a: Real floating-point dtype.
        b: The same dtype as ``a``, and a shape that broadcasts with the shape of ``a``.

    Returns:
        The result, in the common shape.

    Example:
        >>> import torch
        >>> AddReLU.apply(torch.tensor([-3.0, 1.0]), torch.tensor([1.0]))
        tensor([0., 2.])
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Return ``max(a + b, 0)`` and save the signs."""
        y = (a + b).clamp_(min=0)
        ctx.shapes = a.shape, b.shape
        ctx.save_for_backward(pack_bits(y > 0))
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``a`` and ``b``, each with the shape of its input."""
        (packed,) = ctx.saved_tensors
        g = _where_positive(packed, grad_output)
        needs = zip(ctx.shapes, ctx.needs_input_grad, strict=True)
        return tuple(g.sum_to_size(shape) if need else None for shape, need in needs)


def _where_positive(kept: Tensor, grad_output: Tensor) -> Tensor:
    """Return ``g ∘ [y > 0]``, computed from ``y`` or from its packed signs."""
    packed = kept.dtype == torch.uint8
    positive = unpack_bits(kept, grad_output.shape) if packed else kept > 0
    return torch.where(positive, grad_output, 0)
