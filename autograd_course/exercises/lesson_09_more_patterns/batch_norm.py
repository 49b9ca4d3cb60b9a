"""Batch normalization

1. Change one element of x a little. The mean of its channel changes, and so does the variance, so
   all outputs of the channel change. How many paths lead from this element to the loss?
2. The path through the numerator gives g/√(v + eps). The path through the mean subtracts the mean
   of g. The path through the variance subtracts the component along y, which is y times the mean of
   g·y. All means are per channel, that is, over every dim except 1.
3. ∂L/∂x = (g - mean(g) - y · mean(g · y)) / √(v + eps), where v is the biased variance. Take the
   means over all dims except 1, with keepdim=True. Save x and y, and recompute v. Return None for
   eps.
"""

from torch import Tensor
from torch.nn import functional

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def batch_norm(x: Tensor, eps: float) -> Tensor:
    """Normalize each channel (dim 1): ``(x - μ) / √(v + eps)`` with the biased variance ``v``."""
    return functional.batch_norm(x, None, None, training=True, eps=eps)


EXERCISE = FunctionExercise(
    answer="BatchNorm",
    points=3,
    difficulty="hard",
    minutes=20,
    section="Normalization is a projection",
    constraints="no built-in normalization does the work",
    reference=batch_norm,
    samplers={
        "6 examples, 3 channels": lambda rng: (normal(rng, 6, 3), 1e-5),
        "three dims": lambda rng: (normal(rng, 2, 3, 4), 1e-5),
        "four dims, one of size 1, a large eps": lambda rng: (normal(rng, 3, 2, 1, 4), 0.5),
        "one example with one channel": lambda rng: (2 + normal(rng, 1, 1, 5), 1e-3),
    },
    checks=(
        *CONDUCT,
        without(
            "native_batch_norm",
            "native_batch_norm_backward",
            "native_layer_norm",
            "native_layer_norm_backward",
            "native_group_norm",
            "native_group_norm_backward",
            use="mean, var and the projection",
        ),
    ),
)
