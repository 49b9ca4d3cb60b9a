"""Tensors of many shapes, dtypes and layouts, with or without requires_grad."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def tensors(draw: st.DrawFn, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
    """Draw a floating-point tensor with this shape. Its values, dtype, layout and flags vary."""
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    dtype = dtype or draw(
        st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.half])
    )
    arranged = draw(st.sampled_from(LAYOUTS))
    x = arranged(torch.randn(shape, generator=rng, dtype=torch.float64).to(dtype))
    return x.requires_grad_(draw(st.booleans()))


def _strided(x: Tensor) -> Tensor:
    return torch.stack([x, x], -1)[..., 0] if x.dim() else x


def _transposed(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT if x.dim() > 1 else x


def _expanded(x: Tensor) -> Tensor:
    return x[:1].expand(x.shape) if x.dim() and x.shape[0] else x


def _offset(x: Tensor) -> Tensor:
    return torch.cat([x, x])[x.shape[0] :] if x.dim() else x


LAYOUTS = (torch.clone, _strided, _transposed, _expanded, _offset)
