"""Attention functions with keyword arguments, broadcasting, and a random seed."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.tiled import TiledAttention
from autograd_course.functions.attention.triton_attention import TritonAttention, usable
from autograd_course.functions.attention.whole import ScaledDotProductAttention


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
) -> Tensor:
    """Return ``O = softmax(scale · Q Kᵀ) V``, and save the inputs, ``O`` and ``L`` for backward.

    :class:`ScaledDotProductAttention` explains the equations. Leading dims broadcast, and ``H`` can
    be a multiple of ``G`` (grouped queries). If a query attends to no key, its output is 0. You can
    differentiate the result any number of times.

    Args:
        q: The queries, ``(..., H, N, E)``.
        k: The keys, ``(..., G, M, E)``.
        v: The values, ``(..., G, M, F)``.
        mask: A boolean mask is True where a query attends to a key. A floating-point mask is added
            to the scores and can require a gradient. The mask must broadcast to ``(..., H, N, M)``.
        causal: Whether query ``i`` attends only to the keys up to ``i``.
        scale: The scaling factor of the scores, ``1/√E`` by default.
        dropout_p: The probability that dropout sets a weight to 0. The other weights are multiplied
            by ``1 / (1 - dropout_p)``.
        seed: The random seed that decides which weights dropout sets to 0. With the same seed,
            :func:`tiled_attention` drops the same weights. By default, the function draws a seed
            from PyTorch's global generator.

    Returns:
        ``O``, ``(..., H, N, F)``.

    Raises:
        ValueError: The shapes, dtypes or devices do not match, or ``dropout_p`` is not in
            ``[0, 1)``.

    Example:
        >>> import torch
        >>> q, k, v = torch.ones(2, 5, 8), torch.ones(2, 7, 8), torch.ones(2, 7, 3)
        >>> attention(q, k, v).shape
        torch.Size([2, 5, 3])
    """
    q, k, v = broadcast(q, k, v)
    seed = drawn(dropout_p) if seed is None else seed
    call: Any = ScaledDotProductAttention.apply
    out: Tensor = call(q, k, v, mask, causal, scale, dropout_p, seed)[0]
    return out


def tiled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
) -> Tensor:
    """Return the result of :func:`attention` without creating a tensor as large as the scores.

    :class:`TiledAttention` explains the equations. On a CUDA GPU with Triton installed, the
    function uses :class:`TritonAttention` if the call has no mask, the dtype is not float64, and
    ``E`` and ``F`` are at most 128.

    Args:
        q: The queries. All arguments have the same meaning as in :func:`attention`.
        k: The keys.
        v: The values.
        mask: A boolean or a floating-point mask.
        causal: Whether query ``i`` attends only to the keys up to ``i``.
        scale: The scaling factor of the scores.
        dropout_p: The probability that dropout sets a weight to 0.
        seed: The random seed for dropout.

    Returns:
        ``O``, ``(..., H, N, F)``.

    Raises:
        ValueError: The shapes, dtypes or devices do not match, or ``dropout_p`` is not in
            ``[0, 1)``.

    Example:
        >>> import torch
        >>> q, k, v = torch.ones(2, 5, 8), torch.ones(2, 7, 8), torch.ones(2, 7, 3)
        >>> tiled_attention(q, k, v).shape
        torch.Size([2, 5, 3])
    """
    q, k, v = broadcast(q, k, v)
    seed = drawn(dropout_p) if seed is None else seed
    if usable(q, v, mask):
        kernels: Any = TritonAttention.apply
        out: Tensor = kernels(q, k, v, causal, scale, dropout_p, seed)[0]
    else:
        call: Any = TiledAttention.apply
        out = call(q, k, v, mask, causal, scale, dropout_p, seed)[0]
    return out


def broadcast(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Broadcast the leading dims to their common shape. Later checks report mismatched shapes.

    ``k`` and ``v`` get the same number of heads (dim -3). A later check requires the number of
    query heads to be a multiple of this number. Expanding the keys and values does not copy them.
    """
    dims = max(x.dim() for x in (q, k, v))
    if min(q.dim(), k.dim(), v.dim()) < 2 or dims < 3:
        return q, k, v
    q, k, v = (x[(None,) * (dims - x.dim())] for x in (q, k, v))
    try:
        batch = torch.broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)))
        shared = torch.broadcast_shapes(k.shape[-3:-2], v.shape[-3:-2])
    except RuntimeError:
        return q, k, v
    heads = shared if q.shape[-3] == 1 else q.shape[-3:-2]
    return (
        q.expand(*batch, *heads, *q.shape[-2:]),
        k.expand(*batch, *shared, *k.shape[-2:]),
        v.expand(*batch, *shared, *v.shape[-2:]),
    )


def drawn(dropout_p: float) -> int:
    """Return a seed from the global generator, or 0 without dropout."""
    return int(torch.randint(2**62, ())) if dropout_p else 0
