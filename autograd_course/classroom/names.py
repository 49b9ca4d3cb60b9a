"""What each exercise's answer is called: the name that its grader cell hands to ``grade``.

The released notebooks say the same in their grader cells; they are no part of the installed
package, and what a student hands in cannot be asked. A test compares the two.
"""

from collections.abc import Mapping
from types import MappingProxyType

from autograd_course.grader.exercises import CATALOGUE

_CARD = "name"  # the cards ask for a rule's name, always in this variable

_NAMES = {
    "square": "Square",
    "scaled-sigmoid": "ScaledSigmoid",
    "weighted-sum": "WeightedSum",
    "clipped-relu": "ClippedReLU",
    "linear": "Linear",
    "to-polar": "ToPolar",
    "repair-cube": "Cube",
    "repair-multiply": "Multiply",
    "repair-mean": "Mean",
    "repair-absolute": "Absolute",
    "repair-power": "Power",
    "strided-gain": "StridedGain",
    "leaky-relu-in-place": "LeakyReLUInPlace",
    "sort-with-indices": "SortWithIndices",
    "frozen-target": "FrozenTargetLoss",
    "card-skip-connection": _CARD,
    "card-two-outputs": _CARD,
    "card-gradient-scale": _CARD,
    "card-twins": _CARD,
    "gelu": "GELU",
    "swish": "Swish",
    "learnable-swish": "LearnableSwish",
    "broadcast-multiply": "BroadcastMultiply",
    "log-sum-exp": "LogSumExp",
    "max-with-ties": "MaxWithTies",
    "batch-norm": "BatchNorm",
    "soft-rank": "SoftRank",
    "gather-rows": "GatherRows",
    "conv1d": "Conv1d",
    "complex-multiply": "ComplexMultiply",
    "gradient-reversal": "GradientReversal",
    "sign-ste": "SignSTE",
    "clipped-sign": "ClippedSignSTE",
    "round-ste": "RoundSTE",
    "fake-quantize": "FakeQuantize",
    "gumbel-soft": "GumbelSoftmax",
    "gumbel-hard": "HardGumbelSoftmax",
    "binary-digits": "train_binary_net",
    "cube-twice": "Cube",
    "exp-twice": "Exp",
    "sinh-by-output": "Sinh",
    "logsumexp-hessian": "LogSumExp",
    "hessian-vector-product": "hvp",
    "gradient-penalty": "gradient_penalty",
    "repair-hessian": "CrossEntropy",
    "fused-linear-relu": "LinearReLU",
    "packed-leaky-relu": "PackedLeakyReLU",
    "invertible-coupling": "Coupling",
    "checkpointed-block": "checkpointed",
    "chunked-row-losses": "RowLosses",
    "attention-forward": "attend",
    "attention-backward": "Attention",
    "attention-budget": "LeanAttention",
    "attention-tiled": "TiledAttention",
    "attention-twice": "TwiceAttention",
    "attention-grouped": "GroupedAttention",
    "name-temperature": _CARD,
    "repair-temperature": "Tempered",
    "repair-film": "FiLM",
    "name-floor-log": _CARD,
    "repair-floor-log": "FloorLog",
    "name-distance": _CARD,
    "repair-distance": "Distance",
    "name-rotation": _CARD,
    "repair-rotation": "Rotate",
    "repair-share": "Share",
    "repair-color-table": "LookUp",
    "repair-log-cosh": "LogCosh",
    "repair-softsign": "Softsign",
    "name-solver": _CARD,
    "repair-solver": "Solve",
    "repair-rms-norm": "RMSNorm",
    "name-dropout": _CARD,
    "repair-dropout": "Dropout",
    "split-rms-norm": "RMSNorm",
    "per-sample-gradients": "per_sample_gradients",
    "vmap-solve": "Solve",
    "jvp-smooth-maximum": "SmoothMaximum",
    "repair-graph-breaks": "Huber",
    "operator-window-sums": "window_sums",
    "repair-autocast": "Contrast",
    "lambert-w": "LambertW",
    "equilibrium-layer": "Equilibrium",
    "triangular-solve": "TriangularSolve",
    "soft-threshold-operator": "soft_threshold",
    "soft-threshold-function": "SoftThreshold",
    "any-batch": "ship",
    "lost-gradients": "lost_gradients",
    "reversal-that-travels": "reverse",
    "round-away-in-onnx": "round_away_in_onnx",
    "eight-bits": "eight_bits",
    "the-sorter": "deliver",
}

ASKED: Mapping[str, str] = MappingProxyType(_NAMES)


def is_shared(exercise_id: str) -> bool:
    """Whether other exercises of the lesson ask for the same name, so that it tells nothing."""
    lesson = CATALOGUE[exercise_id].lesson
    same = [e.id for e in CATALOGUE.values() if e.lesson == lesson]
    return sum(ASKED[other] == ASKED[exercise_id] for other in same) > 1
