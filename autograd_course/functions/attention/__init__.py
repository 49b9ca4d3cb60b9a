"""Attention in three versions: untiled, tiled, and as GPU kernels. All are twice differentiable."""

from autograd_course.functions.attention.calls import attention, tiled_attention
from autograd_course.functions.attention.dropout import dropped
from autograd_course.functions.attention.tiled import TiledAttention
from autograd_course.functions.attention.tiles import Observer, Tile
from autograd_course.functions.attention.triton_attention import TritonAttention
from autograd_course.functions.attention.whole import ScaledDotProductAttention

__all__ = [
    "Observer",
    "ScaledDotProductAttention",
    "Tile",
    "TiledAttention",
    "TritonAttention",
    "attention",
    "dropped",
    "tiled_attention",
]
