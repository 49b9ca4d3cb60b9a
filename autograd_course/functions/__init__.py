"""Reference Functions, and callables that use them. All are correct and twice differentiable."""

from autograd_course.functions.attention import ScaledDotProductAttention, TiledAttention
from autograd_course.functions.checkpoint import Checkpoint, checkpoint
from autograd_course.functions.clipped_relu import ClippedReLU
from autograd_course.functions.clipped_ste import ClippedSTE
from autograd_course.functions.conv1d import Conv1d
from autograd_course.functions.coupling import AdditiveCoupling, coupled, uncoupled
from autograd_course.functions.equilibrium import Equilibrium
from autograd_course.functions.fake_quantize import FakeQuantize
from autograd_course.functions.fused_relu import AddReLU, LinearReLU
from autograd_course.functions.gelu import GELU
from autograd_course.functions.gradient_reversal import GradientReversal
from autograd_course.functions.gumbel_softmax import GumbelSoftmax
from autograd_course.functions.lambert_w import LambertW
from autograd_course.functions.leaky_relu_in_place import LeakyReLUInPlace
from autograd_course.functions.linear import Linear
from autograd_course.functions.linear_cross_entropy import LinearCrossEntropy, linear_cross_entropy
from autograd_course.functions.local_response_norm import LocalResponseNorm
from autograd_course.functions.logsumexp import LogSumExp
from autograd_course.functions.lookup import Lookup
from autograd_course.functions.matmul import MatMul
from autograd_course.functions.maximum import Max
from autograd_course.functions.multiply import Multiply
from autograd_course.functions.packed_mask import PackedDropout, PackedReLU, pack_bits, unpack_bits
from autograd_course.functions.polar import ToPolar
from autograd_course.functions.reinmax import ReinMax
from autograd_course.functions.round_ste import RoundSTE
from autograd_course.functions.scaled_sigmoid import ScaledSigmoid
from autograd_course.functions.sign_ste import SignSTE
from autograd_course.functions.sinh import Sinh
from autograd_course.functions.smooth_maximum import SmoothMaximum
from autograd_course.functions.soft_rank import SoftRank
from autograd_course.functions.soft_threshold import SoftThreshold
from autograd_course.functions.softmax import Softmax
from autograd_course.functions.softplus import Softplus
from autograd_course.functions.sort import Sort
from autograd_course.functions.square import Square
from autograd_course.functions.standardize import Standardize
from autograd_course.functions.swish import LearnedSwish, Swish
from autograd_course.functions.triangular_solve import TriangularSolve
from autograd_course.functions.weighted_sum import WeightedSum

__all__ = [
    "GELU",
    "AddReLU",
    "AdditiveCoupling",
    "Checkpoint",
    "ClippedReLU",
    "ClippedSTE",
    "Conv1d",
    "Equilibrium",
    "FakeQuantize",
    "GradientReversal",
    "GumbelSoftmax",
    "LambertW",
    "LeakyReLUInPlace",
    "LearnedSwish",
    "Linear",
    "LinearCrossEntropy",
    "LinearReLU",
    "LocalResponseNorm",
    "LogSumExp",
    "Lookup",
    "MatMul",
    "Max",
    "Multiply",
    "PackedDropout",
    "PackedReLU",
    "ReinMax",
    "RoundSTE",
    "ScaledDotProductAttention",
    "ScaledSigmoid",
    "SignSTE",
    "Sinh",
    "SmoothMaximum",
    "SoftRank",
    "SoftThreshold",
    "Softmax",
    "Softplus",
    "Sort",
    "Square",
    "Standardize",
    "Swish",
    "TiledAttention",
    "ToPolar",
    "TriangularSolve",
    "WeightedSum",
    "checkpoint",
    "coupled",
    "linear_cross_entropy",
    "pack_bits",
    "uncoupled",
    "unpack_bits",
]
