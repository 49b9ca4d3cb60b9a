"""Reference Functions: correct, twice differentiable, one idea a module."""

from autograd_course.functions.attention import ScaledDotProductAttention, TiledAttention
from autograd_course.functions.clipped_relu import ClippedReLU
from autograd_course.functions.linear import Linear
from autograd_course.functions.polar import ToPolar
from autograd_course.functions.scaled_sigmoid import ScaledSigmoid
from autograd_course.functions.square import Square
from autograd_course.functions.weighted_sum import WeightedSum

__all__ = [
    "ClippedReLU",
    "Linear",
    "ScaledDotProductAttention",
    "ScaledSigmoid",
    "Square",
    "TiledAttention",
    "ToPolar",
    "WeightedSum",
]
