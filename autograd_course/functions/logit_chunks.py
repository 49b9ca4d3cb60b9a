"""A linear layer and its cross entropy, computed for one chunk of rows at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


@dataclass(frozen=True)
class Loss:
    """The settings of the loss. ``chunk`` is the number of rows in a chunk."""

    ignore_index: int
    smoothing: float
    reduction: str
    chunk: int

    def reduced(self, losses: Tensor, target: Tensor) -> Tensor:
        """Reduce the per-row losses. A mean includes only the rows that are not ignored."""
        if self.reduction == "none":
            return losses
        total = losses.sum()
        return total / self._number(target) if self.reduction == "mean" else total

    def factors(self, grad_output: Tensor, target: Tensor) -> Tensor:
        """Return the upstream gradient of each row's loss: ``g``, or ``g / rows`` for a mean."""
        if self.reduction == "mean":
            # If all rows are ignored, all gradients are 0.
            grad_output = grad_output / self._number(target).clamp(min=1)
        return grad_output.expand(target.shape)

    def _number(self, target: Tensor) -> Tensor:
        return (target != self.ignore_index).sum()


@dataclass(frozen=True)
class Precision:
    """The dtypes for matrix products, for exponentials and sums, and for the loss."""

    products: torch.dtype
    sums: torch.dtype
    loss: torch.dtype

    @classmethod
    def of(cls, x: Tensor) -> "Precision":
        """Return the dtypes that PyTorch would use for ``x``, but at least float32 for sums."""
        kind = x.device.type
        cast = torch.is_autocast_enabled(kind) and x.dtype != torch.float64
        products = torch.get_autocast_dtype(kind) if cast else x.dtype
        sums = torch.promote_types(products, torch.float32)
        return cls(products, sums, sums if cast else x.dtype)


class Layer:
    """The layer ``Z = X Wᵀ + b``, and buffers for the required gradients of ``X``, ``W``, ``b``."""

    def __init__(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, needs: Sequence[bool], how: Precision
    ) -> None:
        self.how, self.x, self.dtypes = how, x, (x.dtype, weight.dtype, weight.dtype)
        self.weight = weight.to(how.products)
        self.bias = None if bias is None else bias.to(how.products)
        self.to_x = torch.zeros_like(x) if needs[0] else None
        self.to_weight = torch.zeros_like(weight, dtype=how.sums) if needs[1] else None
        self.to_bias = weight.new_zeros(len(weight), dtype=how.sums) if needs[2] else None

    def logits(self, part: slice) -> Tensor:
        """Return the logits of the rows in ``part``. The caller can overwrite them."""
        return linear(self.x[part].to(self.how.products), self.weight, self.bias).to(self.how.sums)

    def add(self, part: slice, to_logits: Tensor) -> None:
        """Add the contributions of the rows in ``part`` to the gradients."""
        if self.to_bias is not None:
            self.to_bias += to_logits.sum(0)
        to_logits = to_logits.to(self.how.products)
        if self.to_x is not None:
            self.to_x[part] = to_logits @ self.weight
        if self.to_weight is not None and self.to_weight.dtype == to_logits.dtype:
            self.to_weight.addmm_(to_logits.t(), self.x[part])  # avoids a second tensor this large
        elif self.to_weight is not None:
            self.to_weight += to_logits.t() @ self.x[part].to(to_logits.dtype)

    def gradients(self) -> Gradients:
        """Return each gradient in the dtype of its input."""
        found = zip((self.to_x, self.to_weight, self.to_bias), self.dtypes, strict=True)
        to_x, to_weight, to_bias = (None if g is None else g.to(dtype) for g, dtype in found)
        return to_x, to_weight, to_bias


def swept(loss: Loss, layer: Layer, target: Tensor, factors: Tensor | None) -> Tensor:
    """Return the loss of each row. Given ``factors``, also accumulate the layer's gradients."""
    losses = target.new_zeros(len(target), dtype=layer.how.sums)
    for start in range(0, len(target), loss.chunk):
        part = slice(start, start + loss.chunk)
        losses[part] = _chunk(loss, layer, target, factors, part)
    return losses


def _chunk(loss: Loss, layer: Layer, target: Tensor, factors: Tensor | None, part: slice) -> Tensor:
    """Process one chunk. Its logits are freed before the next chunk's logits are computed."""
    losses, to_logits = _opened(layer.logits(part), target[part], loss)
    if factors is not None:
        layer.add(part, to_logits.mul_(factors[part, None]))
    return losses


def _opened(logits: Tensor, target: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """Return the loss of each row and the gradient of the logits, which overwrites the logits."""
    smoothing = loss.smoothing
    ignored = target == loss.ignore_index
    classes = target.masked_fill(ignored, 0)[:, None]
    ideal = (1 - smoothing) * logits.gather(1, classes)
    if smoothing:  # otherwise 0 · ∞ could give nan for an excluded class
        ideal += smoothing * logits.mean(1, keepdim=True)
    highest = logits.amax(1, keepdim=True)
    weights = logits.sub_(highest).exp_()
    total = weights.sum(1, keepdim=True)
    losses = (highest + total.log() - ideal).squeeze(1)
    to_logits = weights.div_(total).sub_(smoothing / logits.shape[1])
    to_logits.scatter_add_(1, classes, torch.full_like(ideal, smoothing - 1))
    return losses.masked_fill_(ignored, 0), to_logits.masked_fill_(ignored[:, None], 0)


def differentiable_gradients(
    loss: Loss, how: Precision, x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor,
    grad_output: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return the three gradients, computed for all rows at once with differentiable operations."""
    own = None if bias is None else bias.to(how.products)
    logits = linear(x.to(how.products), weight.to(how.products), own)
    ignored = target == loss.ignore_index
    classes = target.masked_fill(ignored, 0)[:, None]
    ideal = torch.full_like(logits, loss.smoothing / logits.shape[1], dtype=how.sums)
    ideal.scatter_add_(1, classes, torch.full_like(classes, 1, dtype=how.sums) - loss.smoothing)
    factors = loss.factors(grad_output, target).masked_fill(ignored, 0)[:, None]
    to_logits = (factors * (logits.to(how.sums).softmax(1) - ideal)).to(how.products)
    return (
        (to_logits @ weight.to(how.products)).to(x.dtype),
        (to_logits.t() @ x.to(how.products)).to(weight.dtype),
        to_logits.sum(0).to(weight.dtype),
    )
