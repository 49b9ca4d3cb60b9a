"""Scaled dot-product attention that keeps its result and one number a row, not its weights."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class ScaledDotProductAttention(torch.autograd.Function):
    """Mix the values of all keys for every query.

    Forward: scores ``S = scale · Q Kᵀ``, ``-∞`` where masked; ``L = log Σ exp S`` by rows;
    weights ``P = exp(S - L)``; outputs ``O = P V`` and ``L``. Backward, with ``dO = ∂L/∂O``,
    ``dL`` what arrives for the log-sum-exp, and ``P`` rebuilt from ``L``:

    ``dV = Pᵀ dO``, ``dP = dO Vᵀ``, ``dS = P ∘ (dP - D + dL)`` where ``D = rowsum(dO ∘ O)``,
    ``dQ = scale · dS K``, ``dK = scale · dSᵀ Q``.

    ``D`` is the softmax Jacobian's ``rowsum(P ∘ dP)``: ``Σⱼ Pᵢⱼ dOᵢ·Vⱼ = dOᵢ·Oᵢ``. So backward
    needs ``Q``, ``K``, ``V``, ``O`` and ``L``, and nothing of the size of ``S`` is kept for it.

    Shapes: ``q`` is ``(..., N, E)``, ``k`` ``(..., M, E)``, ``v`` ``(..., M, F)``, the outputs are
    ``(..., N, F)`` and ``(..., N)``; the leading axes are the same. ``mask`` broadcasts to
    ``(..., N, M)``: boolean, True where a key takes part, or added to the scores, and then it has a
    gradient. ``causal`` lets query ``i`` see the keys up to ``i``. ``scale`` is ``1/√E`` if not
    given. Real floating dtypes, one for all. A gradient is computed only for an input that asks
    for one.

    A query that sees no key has weights, output and gradients of 0, and ``L = -∞``, as in
    ``torch.nn.functional.scaled_dot_product_attention``. Twice differentiable: ``L`` is an output,
    and a saved *output* carries its own graph; as a saved intermediate it would be a constant, and
    the second derivative wrong without a word.

    Raises ``ValueError`` if the shapes do not fit. Sources: Vaswani et al. 2017 (the formula),
    Rabe and Staats 2021, Dao et al. 2022 (backward from ``O`` and ``L``).
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return ``O`` and the log-sum-exp of each row, saving both with the inputs."""
        fitting(q, k, v, mask)
        ctx.causal, ctx.scale = causal, scale_of(q, scale)
        s = scores(q, k, mask, ctx.scale, 0 if causal else None)
        highest = finite(s.amax(-1, keepdim=True))  # no exponent is above 0: nothing overflows
        weights = torch.exp(s - highest)
        total = weights.sum(-1, keepdim=True)
        out, lse = normalized(weights @ v, total), (highest + total.log()).squeeze(-1)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out, lse

    @staticmethod
    def backward(
        ctx: Any, grad_out: Tensor, grad_lse: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, None, None]:
        """Return the gradients of ``q``, ``k``, ``v`` and an additive ``mask``."""
        q, k, v, mask, out, lse = ctx.saved_tensors
        needs_q, needs_k, needs_v, *needs_mask = ctx.needs_input_grad[:4]
        s = scores(q, k, mask, ctx.scale, 0 if ctx.causal else None)
        weights = torch.exp(s - finite(lse)[..., None])
        delta = (grad_out * out).sum(-1) - grad_lse
        grad_scores = weights * (grad_out @ v.mT - delta[..., None])
        return (
            ctx.scale * grad_scores @ k if needs_q else None,
            ctx.scale * grad_scores.mT @ q if needs_k else None,
            weights.mT @ grad_out if needs_v else None,
            grad_scores.sum_to_size(mask.shape) if any(needs_mask) else None,
            None,
            None,
        )


def scores(
    q: Tensor, k: Tensor, mask: Tensor | None, scale: float, diagonal: int | None = None
) -> Tensor:
    """Return ``scale · Q Kᵀ``, with ``-∞`` where ``mask`` is False or above the diagonal.

    ``diagonal`` is that of ``torch.tril``: 0 for causal attention, ``i - j`` for a tile of it that
    begins at query ``i`` and key ``j``, ``None`` for no such limit.
    """
    s = (scale * q) @ k.mT
    if diagonal is not None:
        seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril(diagonal)
        s = s.masked_fill(~seen, -math.inf)
    if mask is None:
        return s
    return s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask


def finite(shift: Tensor) -> Tensor:
    """Return ``shift`` with 0 for ``-∞``: ``-∞ - (-∞)`` would be nan in a row without keys."""
    return torch.where(shift == -math.inf, 0, shift)


def normalized(mixed: Tensor, total: Tensor) -> Tensor:
    """Divide by the sum of the weights; where there was no weight, the result is 0."""
    return mixed / torch.where(total == 0, 1, total)


def scale_of(q: Tensor, scale: float | None) -> float:
    """Return the factor of the scores: the given one, or ``1/√E``."""
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def fitting(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """Raise ``ValueError`` unless queries, keys, values and mask fit together."""
    shapes = " ".join(f"{n} {tuple(t.shape)}" for n, t in (("q", q), ("k", k), ("v", v)))
    if min(q.dim(), k.dim(), v.dim()) < 2 or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(f"attention needs q, k and v of the same leading axes, got {shapes}")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or not q.shape[-1] * k.shape[-2]:
        raise ValueError(f"attention needs q (N, E), k (M, E) and v (M, F), M, E > 0; got {shapes}")
    whole = (*q.shape[:-1], k.shape[-2])
    if mask is not None and not _broadcasts(mask.shape, whole):
        raise ValueError(f"a mask must broadcast to {whole}, got {tuple(mask.shape)}")


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(size in (1, wanted) for size, wanted in pairs)
