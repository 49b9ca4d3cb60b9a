"""Helpers for testing attention: inputs, the built-in as a reference, and the memory of a call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from autograd_course.functions.attention import ScaledDotProductAttention, TiledAttention

Attention = Callable[..., tuple[Tensor, Tensor]]


def whole(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return ScaledDotProductAttention.apply(q, k, v, *rest)


def tiled(q: Tensor, k: Tensor, v: Tensor, *rest: Any, block: Any = (2, 3)) -> Any:
    return TiledAttention.apply(q, k, v, *filled(rest), block)


def filled(rest: tuple[Any, ...]) -> list[Any]:
    """Return the mask, causal, scale, dropout and seed arguments."""
    return [*rest, *[None, False, None, 0.0, 0][len(rest) :]]


def tensors(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [x.requires_grad_() for x in made]


def qkv(n: int = 5, m: int = 7, e: int = 3, f: int = 2, lead: tuple[int, ...] = (2,)) -> Any:
    return tensors((*lead, n, e), (*lead, m, e), (*lead, m, f))


def grouped(n: int = 5, m: int = 7, heads: int = 6, shared: int = 2) -> list[Tensor]:
    return tensors((2, heads, n, 3), (2, shared, m, 3), (2, shared, m, 2))


def holes(n: int = 5, m: int = 7) -> Tensor:
    """Return a mask in which one row sees nothing, and another sees nothing in its first tile."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(n, m, generator=generator) > 0.3
    mask[2] = False
    mask[1, :3] = False
    return mask


def seen(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    """Return a mask that has the same effect without ``causal``."""
    if not causal:
        return mask
    below = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if mask is None or mask.dtype == torch.bool:
        return below if mask is None else mask & below
    return mask.masked_fill(~below, -math.inf)


def reference(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, causal: bool = False, scale: Any = None
) -> tuple[Tensor, Tensor]:
    """Return the built-in's output, and the log-sum-exp, which the built-in does not return."""
    scale = scale or 1 / math.sqrt(q.shape[-1])
    mask = seen(q, k, mask, causal)
    keys = k if q.dim() < 3 else k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    s = scale * q @ keys.mT
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    out = F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=q.dim() > 2)
    return out, torch.logsumexp(s, -1)


def peak(call: Callable[[], object]) -> int:
    """Return the maximum number of bytes that a call held, according to the CPU allocator."""
    # Without acc_events, the profiler of PyTorch 2.11 warns about cycles that do not exist here.
    watched = {"activities": [ProfilerActivity.CPU], "profile_memory": True, "acc_events": True}
    with profile(**watched) as profiler:
        call()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most
