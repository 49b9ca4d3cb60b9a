"""Reference Functions: correct, twice differentiable, one idea a module."""

from autograd_course.functions.attention import ScaledDotProductAttention
from autograd_course.functions.clipped_relu import ClippedReLU
from autograd_course.functions.clipped_ste import ClippedSTE
from autograd_course.functions.fake_quantize import FakeQuantize
from autograd_course.functions.gumbel_softmax import GumbelSoftmax
from autograd_course.functions.linear import Linear
from autograd_course.functions.polar import ToPolar
from autograd_course.functions.reinmax import ReinMax
from autograd_course.functions.round_ste import RoundSTE
from autograd_course.functions.scaled_sigmoid import ScaledSigmoid
from autograd_course.functions.sign_ste import SignSTE
from autograd_course.functions.square import Square
from autograd_course.functions.tiled_attention import TiledAttention
from autograd_course.functions.weighted_sum import WeightedSum

__all__ = [
    "ClippedReLU",
    "ClippedSTE",
    "FakeQuantize",
    "GumbelSoftmax",
    "Linear",
    "ReinMax",
    "RoundSTE",
    "ScaledDotProductAttention",
    "ScaledSigmoid",
    "SignSTE",
    "Square",
    "TiledAttention",
    "ToPolar",
    "WeightedSum",
]
