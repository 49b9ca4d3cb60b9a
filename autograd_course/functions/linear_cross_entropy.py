"""A linear layer and cross entropy in one, that never holds the logits of all rows."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.logit_chunks import (
    Layer,
    Loss,
    Precision,
    differentiable_gradients,
    swept,
)


def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    chunk: int = 1024,
) -> Tensor:
    """Return ``F.cross_entropy(F.linear(input, weight, bias), target, …)``, by chunks of rows.

    With logits ``Z = X Wᵀ + b`` (``N`` rows, ``V`` classes), ``Lᵢ = log Σᵥ exp Zᵢᵥ``, classes ``t``
    and smoothing ``ε``, the loss of a row is

    ``ℓᵢ = Lᵢ - (1 - ε)·Zᵢₜ - ε/V·Σᵥ Zᵢᵥ``, 0 where ``tᵢ`` is ``ignore_index``;

    the sum, or the mean over the rows that are not ignored (nan if there is none). Backward, with
    ``gᵢ`` what arrives for row ``i`` (for a mean ``g`` divided by the number of rows):

    ``dZᵢ = gᵢ·(softmax Zᵢ - (1 - ε)·onehot tᵢ - ε/V)``, ``∂L/∂X = dZ W``, ``∂L/∂W = dZᵀ X``,
    ``∂L/∂b = Σᵢ dZᵢ``.

    Logits exist for ``chunk`` rows at a time: ``O(chunk·V)`` bytes in place of ``O(N·V)``. For a
    mean or a sum one number ``g`` scales all gradients, so that they are computed in forward, while
    a chunk's logits are there, kept, and multiplied by ``g`` in backward (not in place: backward
    may be called twice). With ``reduction="none"`` each
    row has a ``gᵢ`` of its own that forward cannot know, and ``dZᵀ X`` mixes the rows: backward
    builds the logits a second time.

    Shapes: ``input`` is ``(..., D)``, ``weight`` ``(V, D)``, ``bias`` ``(V,)`` or ``None``,
    ``target`` ``(...)``, integers; the result is a scalar, or like ``target``. ``chunk`` need not
    divide the number of rows. Real floating dtypes, one for all; gradients have it too, and are
    summed in float32 where it has half of its bits. Under autocast products are made in its dtype.
    Nothing is computed for an input that needs no gradient. Twice differentiable: under
    ``create_graph`` backward computes the gradients again from the inputs, by operations that
    autograd can follow; their graph holds all logits.

    Raises ``ValueError`` for shapes that do not fit, an unknown ``reduction``, a smoothing outside
    of ``[0, 1]`` and a chunk without rows; for a target that is no class what ``gather`` raises.
    Source: the idea is known from Wijmans et al. 2024 (Cut your losses) and Liger Kernel.
    """
    loss = Loss(ignore_index, label_smoothing, reduction, chunk)
    _check(input, weight, bias, target, loss)
    x, classes = input.reshape(-1, input.shape[-1]), target.reshape(-1).long()
    ahead = torch.is_grad_enabled() and reduction != "none"
    found: Tensor = LinearCrossEntropy.apply(x, weight, bias, classes, loss, ahead)  # type: ignore[no-untyped-call]
    return found.reshape(target.shape) if reduction == "none" else found


class LinearCrossEntropy(torch.autograd.Function):
    """The Function behind :func:`linear_cross_entropy`, of rows ``(N, D)`` and classes ``(N,)``.

    ``ahead``: forward computes the gradients too, for ``g = 1``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        loss: Loss,
        ahead: bool,
    ) -> Tensor:
        """Return the loss, saving the inputs and the gradients that are known already."""
        ctx.loss, ctx.how, ctx.ahead = loss, Precision.of(x), ahead
        needs = ctx.needs_input_grad[:3] if ahead else (False, False, False)
        factors = loss.factors(x.new_ones((), dtype=ctx.how.sums), target) if any(needs) else None
        with torch.autocast(x.device.type, enabled=False):
            layer = Layer(x, weight, bias, needs, ctx.how)
            losses = swept(loss, layer, target, factors)
        ctx.save_for_backward(x, weight, bias, target, *layer.gradients())
        return loss.reduced(losses, target).to(ctx.how.loss)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return ``g`` times the gradients for 1; where they are not there, compute them."""
        x, weight, bias, target, *ones = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        with torch.autocast(x.device.type, enabled=False):
            if torch.is_grad_enabled():
                found = differentiable_gradients(
                    ctx.loss, ctx.how, x, weight, bias, target, grad_output
                )
                return *(g if need else None for g, need in zip(found, needs, strict=True)), *_REST
            if ctx.ahead:
                return *(None if one is None else grad_output * one for one in ones), *_REST
            layer = Layer(x, weight, bias, needs, ctx.how)
            swept(ctx.loss, layer, target, grad_output)
            return *layer.gradients(), *_REST


_REST = (None, None, None)  # target, loss, ahead


def _check(input: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, loss: Loss) -> None:
    shapes = (
        f"input {tuple(input.shape)}, weight {tuple(weight.shape)}, target {tuple(target.shape)}"
    )
    if weight.dim() != 2 or input.shape[-1:] != weight.shape[1:]:
        raise ValueError(
            f"linear_cross_entropy needs input (..., D) and weight (V, D); got {shapes}"
        )
    if target.shape != input.shape[:-1] or target.is_floating_point():
        raise ValueError(
            f"linear_cross_entropy needs a class, an integer, for each row; got {shapes}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias is to be ({len(weight)},), not {tuple(bias.shape)}")
    if loss.reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {loss.reduction!r}")
    if not 0 <= loss.smoothing <= 1:
        raise ValueError(f"label_smoothing lies between 0 and 1, not at {loss.smoothing}")
    if loss.chunk < 1:
        raise ValueError(f"a chunk has at least one row, not {loss.chunk}")
