"""Layers that end in a ReLU, fused with it: what is kept is the sign of the result."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.packed_mask import pack_bits, unpack_bits


class LinearReLU(torch.autograd.Function):
    """A linear layer and its ReLU in one.

    Forward: ``y = max(x Wᵀ + b, 0)``. Backward, with ``g = ∂L/∂y ∘ [y > 0]`` and the leading axes
    flattened to rows: ``∂L/∂x = g W``, ``∂L/∂W = gᵀ x``, ``∂L/∂b = Σ_rows g``.

    The sign of ``y`` tells all that backward needs of ``x Wᵀ + b``, which is clamped in its own
    memory. ``keep="output"`` saves ``y``, which is free where the next layer keeps its input
    anyway; ``keep="sign"`` saves its signs, a bit for each, for a next operation that does not.
    ``x`` and ``W`` are saved in either case.

    Shapes: ``x`` is ``(..., in)``, ``weight`` is ``(out, in)``, ``bias`` is ``(out,)`` or ``None``,
    ``y`` is ``(..., out)``. Real floating dtypes, one for all. A gradient is computed only for an
    input that asks for one; at the kink it is 0. Twice differentiable.

    Raises ``ValueError`` if ``keep`` is something else.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, keep: str = "output"
    ) -> Tensor:
        """Return ``max(x Wᵀ + b, 0)``, saving ``x``, ``W`` and what tells the sign."""
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
    """The sum of two tensors and its ReLU in one, as at the end of a residual block.

    Forward: ``y = max(a + b, 0)``. Backward: ``g = ∂L/∂y ∘ [y > 0]`` for both, summed over the axes
    along which an input was broadcast.

    Addition keeps nothing and ``torch.relu`` its output, so that two operations keep ``y``; the
    fused one keeps its signs, ``⌈n / 8⌉`` bytes, and makes one tensor instead of two. Shapes:
    ``a`` and ``b`` broadcast to that of ``y``. Real floating dtypes, one for both. Twice
    differentiable (the second derivative is 0).
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Return ``max(a + b, 0)``, saving the signs."""
        y = (a + b).clamp_(min=0)
        ctx.shapes = a.shape, b.shape
        ctx.save_for_backward(pack_bits(y > 0))
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``a`` and ``b``: the same, but for broadcast axes."""
        (packed,) = ctx.saved_tensors
        g = _where_positive(packed, grad_output)
        needs = zip(ctx.shapes, ctx.needs_input_grad, strict=True)
        return tuple(g.sum_to_size(shape) if need else None for shape, need in needs)


def _where_positive(kept: Tensor, grad_output: Tensor) -> Tensor:
    """Return ``g ∘ [y > 0]``, from ``y`` or from its packed signs."""
    packed = kept.dtype == torch.uint8
    positive = unpack_bits(kept, grad_output.shape) if packed else kept > 0
    return torch.where(positive, grad_output, 0)
