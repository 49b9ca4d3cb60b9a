"""Reference Functions: correct, twice differentiable, one idea a module."""

from autograd_course.functions.attention import ScaledDotProductAttention
from autograd_course.functions.clipped_relu import ClippedReLU
from autograd_course.functions.linear import Linear
from autograd_course.functions.polar import ToPolar
from autograd_course.functions.scaled_sigmoid import ScaledSigmoid
from autograd_course.functions.sinh import Sinh
from autograd_course.functions.softplus import Softplus
from autograd_course.functions.square import Square
from autograd_course.functions.tiled_attention import TiledAttention
from autograd_course.functions.weighted_sum import WeightedSum

__all__ = [
    "ClippedReLU",
    "Linear",
    "ScaledDotProductAttention",
    "ScaledSigmoid",
    "Sinh",
    "Softplus",
    "Square",
    "TiledAttention",
    "ToPolar",
    "WeightedSum",
]
