"""Reference Functions, and callables built on them: correct, twice differentiable."""

from autograd_course.functions.attention import ScaledDotProductAttention
from autograd_course.functions.checkpoint import Checkpoint, checkpoint
from autograd_course.functions.clipped_relu import ClippedReLU
from autograd_course.functions.coupling import AdditiveCoupling, coupled, uncoupled
from autograd_course.functions.fused_relu import AddReLU, LinearReLU
from autograd_course.functions.linear import Linear
from autograd_course.functions.linear_cross_entropy import LinearCrossEntropy, linear_cross_entropy
from autograd_course.functions.packed_mask import PackedDropout, PackedReLU, pack_bits, unpack_bits
from autograd_course.functions.polar import ToPolar
from autograd_course.functions.scaled_sigmoid import ScaledSigmoid
from autograd_course.functions.square import Square
from autograd_course.functions.tiled_attention import TiledAttention
from autograd_course.functions.weighted_sum import WeightedSum

__all__ = [
    "AddReLU",
    "AdditiveCoupling",
    "Checkpoint",
    "ClippedReLU",
    "Linear",
    "LinearCrossEntropy",
    "LinearReLU",
    "PackedDropout",
    "PackedReLU",
    "ScaledDotProductAttention",
    "ScaledSigmoid",
    "Square",
    "TiledAttention",
    "ToPolar",
    "WeightedSum",
    "checkpoint",
    "coupled",
    "linear_cross_entropy",
    "pack_bits",
    "uncoupled",
    "unpack_bits",
]
