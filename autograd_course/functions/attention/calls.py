"""Attention as it is called: keywords, axes that broadcast, a seed that is drawn."""

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
    """Return ``O = softmax(scale · Q Kᵀ) V``, keeping for backward the inputs, ``O`` and ``L``.

    ``q`` is ``(..., H, N, E)``, ``k`` ``(..., G, M, E)``, ``v`` ``(..., G, M, F)``; the result is
    ``(..., H, N, F)``. Leading axes broadcast, and ``H`` may be a multiple of ``G`` (grouped
    queries). A boolean ``mask`` is True where a query attends; a floating one is added to the
    scores and may ask for a gradient; both broadcast to ``(..., H, N, M)``. ``causal`` lets query
    ``i`` see the keys up to ``i``, counted from the first of each. A query that sees no key gets
    zeros. ``scale`` is ``1/√E`` if not given.

    With ``dropout_p`` weights are set to 0, the others multiplied by ``1 / (1 - dropout_p)``; which
    ones, ``seed`` decides, here as in :func:`tiled_attention`. Without a seed one is drawn from
    PyTorch's global generator.

    Raises ``ValueError`` with a sentence if arguments do not fit. Differentiable as often as you
    like. See :class:`ScaledDotProductAttention` for the equations.
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
    """Return what :func:`attention` returns; no tensor has the size of the scores, in any pass.

    Arguments and errors are the same. See :class:`TiledAttention` for the equations. On a CUDA GPU
    with triton, and without a mask, :class:`TritonAttention` computes it.
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
    """Expand the leading axes to what they have in common; what does not fit is left for later.

    The heads (axis -3) of ``k`` and ``v`` become alike; that those of ``q`` are a multiple of them
    is attention's own affair: no key is repeated.
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
    """Return a seed from the global generator, which moves on only where there is dropout."""
    return int(torch.randint(2**62, ())) if dropout_p else 0
