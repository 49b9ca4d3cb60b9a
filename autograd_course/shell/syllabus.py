"""The exercises of each lesson, with the variable that each grader cell passes to ``grade``.

This module contains only names and imports nothing, so that shell completion is fast. The catalogue
(``grader.exercises``) defines the exercises, and a test compares the two.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

_CARD = "name"  # the answer to a card is the name of a rule, in this variable

_LESSONS = {
    "01_template": {
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
    },
    "02_ctx_rules": {
        "strided-gain": "StridedGain",
        "leaky-relu-in-place": "LeakyReLUInPlace",
        "sort-with-indices": "SortWithIndices",
        "frozen-target": "FrozenTargetLoss",
        "card-skip-connection": _CARD,
        "card-two-outputs": _CARD,
        "card-gradient-scale": _CARD,
        "card-twins": _CARD,
    },
    "03_gradient_patterns": {
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
    },
    "04_straight_through": {
        "sign-ste": "SignSTE",
        "clipped-sign": "ClippedSignSTE",
        "round-ste": "RoundSTE",
        "fake-quantize": "FakeQuantize",
        "gumbel-soft": "GumbelSoftmax",
        "gumbel-hard": "HardGumbelSoftmax",
        "binary-digits": "train_binary_net",
    },
    "05_double_backward": {
        "cube-twice": "Cube",
        "exp-twice": "Exp",
        "sinh-by-output": "Sinh",
        "logsumexp-hessian": "LogSumExp",
        "hessian-vector-product": "hvp",
        "gradient-penalty": "gradient_penalty",
        "repair-hessian": "CrossEntropy",
    },
    "06_memory_patterns": {
        "fused-linear-relu": "LinearReLU",
        "packed-leaky-relu": "PackedLeakyReLU",
        "invertible-coupling": "Coupling",
        "checkpointed-block": "checkpointed",
        "chunked-row-losses": "RowLosses",
    },
    "07_attention_challenge": {
        "attention-forward": "attend",
        "attention-backward": "Attention",
        "attention-budget": "LeanAttention",
        "attention-tiled": "TiledAttention",
        "attention-twice": "TwiceAttention",
        "attention-grouped": "GroupedAttention",
    },
    "08_debugging_clinic": {
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
    },
    "09_beyond_eager": {
        "split-rms-norm": "RMSNorm",
        "per-sample-gradients": "per_sample_gradients",
        "vmap-solve": "Solve",
        "jvp-smooth-maximum": "SmoothMaximum",
        "repair-graph-breaks": "Huber",
        "operator-window-sums": "window_sums",
        "repair-autocast": "Contrast",
    },
    "10_external_code": {
        "lambert-w": "LambertW",
        "equilibrium-layer": "Equilibrium",
        "triangular-solve": "TriangularSolve",
        "soft-threshold-operator": "soft_threshold",
        "soft-threshold-function": "SoftThreshold",
    },
    "11_ship_it": {
        "any-batch": "ship",
        "lost-gradients": "lost_gradients",
        "reversal-that-travels": "reverse",
        "round-away-in-onnx": "round_away_in_onnx",
        "eight-bits": "eight_bits",
        "the-sorter": "deliver",
    },
}

SYLLABUS: Mapping[str, Mapping[str, str]] = MappingProxyType(_LESSONS)


def lesson_with(exercise_id: str) -> str:
    """Return the lesson of an exercise, or an empty string if there is no such exercise."""
    return next((lesson for lesson, names in SYLLABUS.items() if exercise_id in names), "")


def answer_to(exercise_id: str) -> str:
    """Return the name of an exercise's answer, empty where there is no such exercise."""
    return next((names[exercise_id] for names in SYLLABUS.values() if exercise_id in names), "")


def id_typed(text: str) -> str:
    """Normalize an id or name that was typed in any case, with ``_``, ``-`` or spaces."""
    return "-".join(text.lower().replace("_", " ").replace("-", " ").split())


def named(typed: str, names: Iterable[str]) -> str:
    """Return the one of ``names`` that was typed in another way, empty where none or several were.

    Capitals, spaces, hyphens and underscores make no difference, so that a class's name stands for
    the id of its exercise: ``ScaledSigmoid`` for ``scaled-sigmoid``.
    """
    meant = [name for name in names if _letters(name) == _letters(typed)]
    return meant[0] if len(meant) == 1 else ""


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
