"""A linear layer fused with cross entropy, without the logits of all rows at once."""

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
    """Return ``F.cross_entropy(F.linear(input, weight, bias), target, …)``, in chunks of rows.

    With the logits ``Z = X Wᵀ + b`` (``N`` rows, ``V`` classes), ``Lᵢ = log Σᵥ exp Zᵢᵥ``, the
    classes ``t`` and the smoothing ``ε``, the loss of a row is

    ``ℓᵢ = Lᵢ - (1 - ε)·Zᵢₜ - ε/V·Σᵥ Zᵢᵥ``, and 0 where ``tᵢ`` is ``ignore_index``.

    The result is the losses, their sum, or their mean over the rows that are not ignored (nan if
    all rows are ignored). Backward, where ``gᵢ`` is the gradient for row ``i`` (for a mean, ``g``
    divided by the number of rows):

    ``dZᵢ = gᵢ·(softmax Zᵢ - (1 - ε)·onehot tᵢ - ε/V)``, ``∂L/∂X = dZ W``, ``∂L/∂W = dZᵀ X``,
    ``∂L/∂b = Σᵢ dZᵢ``.

    Only ``chunk`` rows of logits exist at a time, which takes ``O(chunk·V)`` bytes instead of
    ``O(N·V)``. For a mean or a sum, a single number ``g`` scales all gradients. So forward computes
    them while the logits of a chunk exist, and backward multiplies them by ``g``. It does so out of
    place, because you may call backward twice. With ``reduction="none"``, each row has its own
    ``gᵢ``, which forward does not know, and ``dZᵀ X`` mixes the rows. So backward recomputes the
    logits.

    Gradients have the dtype of the inputs, and sums of 16-bit values are computed in float32. Under
    autocast, the matrix products use its dtype. Nothing is computed for an input that needs no
    gradient. Twice differentiable: under ``create_graph``, backward recomputes the gradients with
    operations that autograd can follow, and their graph holds all logits.

    Args:
        input: ``(..., D)``, real floating-point dtype.
        weight: ``(V, D)``, with the same dtype as ``input``.
        target: ``(...)``, the class of each row as an integer.
        bias: ``(V,)``, with the same dtype as ``input``, or None.
        ignore_index: Rows with this target do not count.
        label_smoothing: ``ε``, from 0 to 1.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        chunk: The number of rows in a chunk. It need not divide the number of rows.

    Returns:
        A scalar, or the loss of each row, with the same shape as ``target``.

    Raises:
        ValueError: The shapes do not fit together, ``reduction`` is unknown, ``label_smoothing`` is
            not in ``[0, 1]``, or ``chunk`` is not positive.

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
    """The Function of :func:`linear_cross_entropy`, for rows ``(N, D)`` and classes ``(N,)``.

    If ``ahead`` is true, forward also computes the gradients, for ``g = 1``.
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
        """Return the loss, and save the inputs and the gradients that are already known."""
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
