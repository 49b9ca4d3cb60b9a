"""Scaled dot-product attention that saves its inputs, its output, and one number per row."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import (
    How,
    finite,
    fitting,
    groups,
    how,
    normalized,
    wide,
)
from autograd_course.functions.attention.dropout import dropped

Grads = tuple[Tensor | None, ...]


class ScaledDotProductAttention(torch.autograd.Function):
    """Average the values for each query, weighted by a softmax of the query's scores.

    Forward: the scores are ``S = scale · Q Kᵀ``. Masked scores are ``-∞``. With the log-sum-exp
    ``L = log Σ exp S`` of each row, the weights are ``P = exp(S - L)``. The outputs are ``O = P V``
    and ``L``. Backward recomputes ``P`` from ``L``. With ``dO = ∂L/∂O`` and the gradient ``dL`` of
    the log-sum-exp:

    ``dV = Pᵀ dO``, ``dP = dO Vᵀ``, ``dS = P ∘ (dP - D + dL)`` where ``D = rowsum(dO ∘ O)``,
    ``dQ = scale · dS K``, ``dK = scale · dSᵀ Q``.

    ``D`` equals the term ``rowsum(P ∘ dP)`` of the softmax Jacobian, because
    ``Σⱼ Pᵢⱼ dOᵢ·Vⱼ = dOᵢ·Oᵢ``. Backward therefore needs only ``Q``, ``K``, ``V``, ``O`` and ``L``,
    and forward saves no tensor as large as ``S``.

    With dropout, the pattern ``Z`` comes from :func:`dropped`, and backward recomputes it from
    ``seed``. With ``Z' = Z / (1 - p)``: ``O = (P ∘ Z') V``, ``dV = (P ∘ Z')ᵀ dO``,
    ``dP = Z' ∘ dO Vᵀ``. ``D`` is still ``rowsum(dO ∘ O)``, which still equals ``rowsum(P ∘ dP)``.
    ``L`` does not depend on dropout.

    If a query sees no key, its weights, its output and its gradient are 0, as in
    ``torch.nn.functional.scaled_dot_product_attention``, and its ``L`` is ``-∞``. Backward computes
    gradients only for inputs that require them. For 16-bit inputs, the computation uses float32,
    and ``L`` is float32. Twice differentiable, because ``L`` is an output, and a saved output has a
    graph. If ``L`` were a saved intermediate, it would be a constant, and the second derivative
    would be silently incorrect.

    Args:
        q: The queries, ``(..., H, N, E)`` or ``(N, E)``, real floating-point dtype.
        k: The keys, ``(..., G, M, E)``. ``H`` is a multiple of ``G`` (grouped queries): head ``h``
            reads the keys of head ``h // (H/G)``, whose gradient is the sum over its group.
        v: The values, ``(..., G, M, F)``.
        mask: A tensor that broadcasts to ``(..., H, N, M)``. A boolean mask is True where a query
            attends to a key. A floating-point mask is added to the scores and has a gradient.
        causal: Whether query ``i`` attends only to the keys up to ``i``.
        scale: The scaling factor of the scores, ``1/√E`` by default.
        dropout_p: The probability that dropout sets a weight to 0.
        seed: The random seed that decides which weights dropout sets to 0.

    Returns:
        ``O``, ``(..., H, N, F)``, and ``L``, ``(..., H, N)``.

    Raises:
        ValueError: The shapes, dtypes or devices do not match, or ``dropout_p`` is not in
            ``[0, 1)``.

    Example:
        >>> import torch
        >>> q, k, v = torch.zeros(2, 5, 8), torch.zeros(2, 7, 8), torch.ones(2, 7, 3)
        >>> out, lse = ScaledDotProductAttention.apply(q, k, v)
        >>> out.shape, lse.shape
        (torch.Size([2, 5, 3]), torch.Size([2, 5]))

    Sources: Vaswani et al. 2017 (the formula); Rabe and Staats 2021, and Dao et al. 2022 (backward
    from ``O`` and ``L``); Ainslie et al. 2023 (grouped queries).
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
        dropout_p: float = 0.0,
        seed: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Return ``O`` and the log-sum-exp of each row, and save both with the inputs."""
        fitting(q, k, v, mask)
        ctx.how = how(q, causal, scale, dropout_p, seed)
        s = scores(q, k, mask, ctx.how)
        highest = finite(row_max(s))  # no exponent is above 0, so nothing overflows
        weights = torch.exp(s - highest)
        total = weights.sum(-1, keepdim=True)
        factor = pattern(weights, ctx.how)
        mixed = (weights if factor is None else weights * factor) @ spread(q, k, v)
        out, lse = normalized(mixed, total).to(q.dtype), (highest + total.log()).squeeze(-1)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> Grads:
        """Return the gradients of ``q``, ``k``, ``v`` and an additive ``mask``."""
        arrived = grad_out, grad_lse
        found = gradients(ctx.saved_tensors, arrived, ctx.how, ctx.needs_input_grad[:4])
        return *found, *([None] * (len(ctx.needs_input_grad) - 4))


def gradients(
    saved: Sequence[Any], arrived: Sequence[Tensor], how: How, needs: Sequence[bool]
) -> Grads:
    """Return the required gradients of q, k, v and mask, using differentiable operations.

    ``saved`` contains q, k, v, mask, ``O`` and ``L``. ``arrived`` contains ``dO`` and ``dL``.
    """
    (q, k, v, mask, out, lse), (grad_out, grad_lse) = saved, arrived
    grad = grad_out.to(lse.dtype)
    weights = torch.exp(scores(q, k, mask, how) - finite(lse)[..., None])
    grad_weights, kept = grad @ spread(q, k, v).mT, weights
    if (factor := pattern(weights, how)) is not None:
        grad_weights, kept = factor * grad_weights, factor * weights
    delta = (grad * out).sum(-1) - grad_lse
    grad_scores = weights * (grad_weights - delta[..., None])
    return (
        (how.scale * grad_scores @ spread(q, k, k)).to(q.dtype) if needs[0] else None,
        gathered(how.scale * grad_scores.mT @ q.to(lse.dtype), k) if needs[1] else None,
        gathered(kept.mT @ grad, v) if needs[2] else None,
        None if mask is None or not needs[3] else grad_scores.sum_to_size(mask.shape).to(mask),
    )


def scores(q: Tensor, k: Tensor, mask: Tensor | None, how: How) -> Tensor:
    """Return the scores ``scale · Q Kᵀ``, with ``-∞`` where a query does not see a key."""
    s = (how.scale * q.to(wide(q.dtype))) @ spread(q, k, k).mT
    if how.causal:
        seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
        s = s.masked_fill(~seen, -math.inf)
    if mask is None:
        return s
    return s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask.to(s.dtype)


def row_max(s: Tensor) -> Tensor:
    """Return the largest score of each row, or ``-∞`` if there are no keys."""
    return s.amax(-1, keepdim=True) if s.shape[-1] else s.new_full((*s.shape[:-1], 1), -math.inf)


def pattern(weights: Tensor, how: How) -> Tensor | None:
    """Return ``Z' = Z / (1 - p)``, which is 0 for dropped weights, or None without dropout."""
    if not how.dropout_p:
        return None
    *lead, n, m = weights.shape
    rows = torch.arange(math.prod(lead) * n, device=weights.device).view(*lead, n)
    gone = dropped(rows, torch.arange(m, device=weights.device), how.dropout_p, how.seed)
    return how.kept * (~gone).to(weights.dtype)


def spread(q: Tensor, k: Tensor, x: Tensor) -> Tensor:
    """Repeat the keys or values ``x`` for each query head, in the computation dtype."""
    x = x.to(wide(x.dtype))
    return x if groups(q, k) == 1 else x.repeat_interleave(groups(q, k), -3)


def gathered(grad: Tensor, k: Tensor) -> Tensor:
    """Return the gradient of shared keys or values, summed over the query heads that use them."""
    if grad.dim() > 2 and grad.shape[-3] != k.shape[-3]:
        grad = grad.unflatten(-3, (k.shape[-3], -1)).sum(-3)
    return grad.to(k.dtype)
