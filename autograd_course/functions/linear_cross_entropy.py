"""A linear layer fused with cross entropy. It never holds the logits of all rows at once."""

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
    """Compute ``F.cross_entropy(F.linear(input, weight, bias), target, …)`` in chunks of rows.

    With the logits ``Z = X Wᵀ + b`` (``N`` rows, ``V`` classes), ``Lᵢ = log Σᵥ exp Zᵢᵥ``, the
    classes ``t`` and the smoothing ``ε``, the loss of a row is

    ``ℓᵢ = Lᵢ - (1 - ε)·Zᵢₜ - ε/V·Σᵥ Zᵢᵥ``, and 0 where ``tᵢ`` is ``ignore_index``.

    The result is the loss of each row, the sum of the losses, or their mean over the rows that are
    not ignored (nan if all rows are ignored). In backward, ``gᵢ`` is the gradient with respect to
    ``ℓᵢ``. For a sum it is ``g``. For a mean it is ``g`` divided by the number of rows that are not
    ignored. Then

    ``dZᵢ = gᵢ·(softmax Zᵢ - (1 - ε)·onehot tᵢ - ε/V)``, ``∂L/∂X = dZ W``, ``∂L/∂W = dZᵀ X``,
    ``∂L/∂b = Σᵢ dZᵢ``.

    Only ``chunk`` rows of logits exist at a time. They take ``O(chunk·V)`` bytes instead of
    ``O(N·V)``. For a mean or a sum, a single number ``g`` scales all gradients. Forward therefore
    computes the gradients for ``g = 1`` while the logits of a chunk exist, and backward multiplies
    the gradients by ``g``. The multiplication is out of place, so you can call backward twice. With
    ``reduction="none"``, each row has its own ``gᵢ``, which forward does not know, and ``dZᵀ X``
    mixes the rows. Backward must therefore recompute the logits.

    Each gradient has the dtype of its input, and sums of 16-bit values are computed in float32.
    Under autocast, the matrix products use the autocast dtype. The Function computes gradients only
    for inputs that require them. Twice differentiable: under ``create_graph``, backward recomputes
    the gradients with operations that autograd can differentiate. The graph of these operations
    keeps all logits in memory.

    Args:
        input: ``(..., D)``, real floating-point dtype.
        weight: ``(V, D)``, with the same dtype as ``input``.
        target: ``(...)``, one integer class per row.
        bias: ``(V,)``, with the same dtype as ``input``, or None.
        ignore_index: Rows with this target have a loss of 0 and do not count in the mean.
        label_smoothing: ``ε``, from 0 to 1.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        chunk: The number of rows in a chunk. The last chunk can be smaller.

    Returns:
        A scalar, or the loss of each row, with the same shape as ``target``.

    Raises:
        ValueError: The shapes do not match, ``reduction`` is unknown, ``label_smoothing`` is not in
            ``[0, 1]``, or ``chunk`` is not positive.

    Example:
        >>> import torch
        >>> x, weight = torch.zeros(3, 2), torch.zeros(4, 2)
        >>> linear_cross_entropy(x, weight, torch.tensor([0, 1, 2]))
        tensor(1.3863)

    Sources: Wijmans et al., "Cut your losses in large-vocabulary language models", 2024; Liger
    Kernel.
    """
    loss = Loss(ignore_index, label_smoothing, reduction, chunk)
    _check(input, weight, bias, target, loss)
    x, classes = input.reshape(-1, input.shape[-1]), target.reshape(-1).long()
    ahead = torch.is_grad_enabled() and reduction != "none"
    found: Tensor = LinearCrossEntropy.apply(x, weight, bias, classes, loss, ahead)  # type: ignore[no-untyped-call]
    return found.reshape(target.shape) if reduction == "none" else found


class LinearCrossEntropy(torch.autograd.Function):
    """The Function behind :func:`linear_cross_entropy`, for rows ``(N, D)`` and targets ``(N,)``.

    If ``ahead`` is true, forward also computes the gradients for ``g = 1``.
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
        """Return the loss. Save the inputs, and the gradients if forward has computed them."""
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
        """Return the gradients. If forward computed them for ``g = 1``, multiply them by ``g``."""
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
