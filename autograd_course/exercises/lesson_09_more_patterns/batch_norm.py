"""Batch normalization

1. Change one element of x slightly. The mean and the variance of its channel change, so all outputs
   of the channel change. How many paths lead from this element to the loss?
2. The path through the numerator gives g/√(v + eps). The path through the mean subtracts the mean
   of g. The path through the variance subtracts the component along y, which is y times the mean of
   g·y. All means are per channel, that is, over every dim except 1.
3. ∂L/∂x = (g - mean(g) - y · mean(g · y)) / √(v + eps), where v is the biased variance. Take the
   means over all dims except 1, with keepdim=True. Save x and y, and recompute v. Return None for
   eps.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def batch_norm(x: Tensor, eps: float) -> Tensor:
    """Normalize each channel (dim 1): ``(x - μ) / √(v + eps)`` with the biased variance ``v``."""
    return functional.batch_norm(x, None, None, training=True, eps=eps)


def others(x: Tensor) -> list[int]:
    """Return all dims except dim 1."""
    return [dim for dim in range(x.dim()) if dim != 1]


def normalized(
    *,
    dims: Callable[[Tensor], Sequence[int]] = others,
    unbiased: bool = False,
    divisor: Callable[[Tensor, float], Tensor] = lambda variance, eps: (variance + eps).sqrt(),
) -> Callable[..., Tensor]:
    """Return a normalization with different dims, a different variance or a different divisor."""

    def mistake(x: Tensor, eps: float) -> Tensor:
        over = list(dims(x))
        variance = x.var(over, unbiased=unbiased, keepdim=True)
        return (x - x.mean(over, keepdim=True)) / divisor(variance, eps)

    return mistake


Step = Callable[[Tensor, Tensor, Tensor, Callable[[Tensor], Tensor]], Tensor]


def with_gradient(
    step: Step,
    *,
    dims: Callable[[Tensor], Sequence[int]] = others,
    unbiased: bool = False,
    scale: Callable[[Tensor, float], Tensor] = lambda variance, eps: (variance + eps).rsqrt(),
) -> Callable[..., Any]:
    """Return a batch normalization with an alternative backward.

    ``step`` takes ``grad_output``, y, x and a function that computes the mean over ``dims``. The
    backward multiplies its result by ``scale(variance, eps)``.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor]:
        x, eps = inputs
        over = list(dims(x))
        variance = x.var(over, unbiased=unbiased, keepdim=True)
        found = step(g, batch_norm(x, eps), x, lambda t: t.mean(over, keepdim=True))
        return (scale(variance, eps) * found,)

    return mistaken(batch_norm, backward)


def _count(x: Tensor) -> int:
    return x.numel() // x.shape[1]


def right_step(g: Tensor, y: Tensor, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient before it is divided by the standard deviation."""
    return g - mean(g) - y * mean(g * y)


NORM_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The variance is divided by m - 1. This exercise asks for the biased variance: "
    "unbiased=False.": normalized(unbiased=True),
    "eps is added outside of the square root. It belongs inside: √(v + eps).": normalized(
        divisor=lambda variance, eps: variance.sqrt() + eps
    ),
    "The square root is missing. Divide by √(v + eps), not by v + eps.": normalized(
        divisor=lambda variance, eps: variance + eps
    ),
    "eps is missing. Divide by √(v + eps).": normalized(
        divisor=lambda variance, eps: variance.sqrt()
    ),
    "The variance is divided by m - 1, and eps is added outside of the square root. Divide by "
    "√(v + eps), with the biased variance.": normalized(
        unbiased=True, divisor=lambda variance, eps: variance.sqrt() + eps
    ),
    "Mean and variance are taken over dim 1, so each example is normalized. Take them for each "
    "channel: over all dims except 1.": normalized(dims=lambda x: [1]),
    "Mean and variance are taken over all dims except 0, so each example is normalized. Take them "
    "for each channel: over all dims except 1.": normalized(dims=lambda x: [*range(1, x.dim())]),
    "Mean and variance are taken over the whole tensor. Take them for each channel: over all dims "
    "except 1.": normalized(dims=lambda x: [*range(x.dim())]),
    "Mean and variance are taken only over dim 0. With more than two dims, take them over all dims "
    "except 1.": normalized(dims=lambda x: [0]),
    "Mean and variance are taken over the dims after dim 1, so each example has its own. Take them "
    "over all dims except 1, so also over dim 0.": normalized(
        dims=lambda x: [*range(2, x.dim())] or [0]
    ),
    "The mean is not subtracted.": lambda x, eps: (
        x / (x.var(others(x), unbiased=False, keepdim=True) + eps).sqrt()
    ),
}
NORM_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "This is only the path through the numerator. The mean and the variance also depend on x, so "
    "two terms are missing.": with_gradient(lambda g, y, x, mean: g),
    "The path through the variance is missing. It subtracts the component along y.": with_gradient(
        lambda g, y, x, mean: g - mean(g)
    ),
    "The path through the mean is missing. It subtracts the mean of grad_output.": with_gradient(
        lambda g, y, x, mean: g - y * mean(g * y)
    ),
    "The component along y contains a sum. It must be the mean of grad_output · y.": with_gradient(
        lambda g, y, x, mean: g - mean(g) - y * mean(g * y) * _count(x)
    ),
    "You subtract the sum of grad_output. It must be the mean.": with_gradient(
        lambda g, y, x, mean: g - mean(g) * _count(x) - y * mean(g * y)
    ),
    "You divide both sums by the size of dim 0. The mean and the variance average over all dims "
    "except 1, so divide by the product of their sizes.": with_gradient(
        lambda g, y, x, mean: g - _count(x) / len(x) * (mean(g) + y * mean(g * y))
    ),
    "Both terms contain sums. They must contain means.": with_gradient(
        lambda g, y, x, mean: g - _count(x) * (mean(g) + y * mean(g * y))
    ),
    "The component along y lacks the factor y: it is y times the mean of grad_output · y.": (
        with_gradient(lambda g, y, x, mean: g - mean(g) - mean(g * y))
    ),
    "The mean in the component along y contains only grad_output. It is the mean of grad_output · "
    "y.": with_gradient(lambda g, y, x, mean: g - mean(g) - y * mean(g)),
    "The component along y is the mean of grad_output · x. It needs y, the normalized x.": (
        with_gradient(lambda g, y, x, mean: g - mean(g) - y * mean(g * x))
    ),
    "The path through the variance contains x - μ. It needs y, which is x - μ divided by the "
    "standard deviation.": with_gradient(
        lambda g, y, x, mean: g - mean(g) - (x - mean(x)) * mean(g * (x - mean(x)))
    ),
    "The component along y is added. It must be subtracted.": with_gradient(
        lambda g, y, x, mean: g - mean(g) + y * mean(g * y)
    ),
    "The path through the variance is twice as large as it should be. The derivative of the square "
    "root has a factor 1/2.": with_gradient(
        lambda g, y, x, mean: g - mean(g) - 2 * y * mean(g * y)
    ),
    "The path through the variance is half as large as it should be. The derivative of the square "
    "in the variance has a factor 2.": with_gradient(
        lambda g, y, x, mean: g - mean(g) - y * mean(g * y) / 2
    ),
    "The division by √(v + eps) is missing in backward.": with_gradient(
        right_step, scale=lambda variance, eps: torch.ones_like(variance)
    ),
    "backward divides by v + eps. The square root is missing.": with_gradient(
        right_step, scale=lambda variance, eps: 1 / (variance + eps)
    ),
    "backward multiplies by √(v + eps). It must divide by it.": with_gradient(
        right_step, scale=lambda variance, eps: (variance + eps).sqrt()
    ),
    "eps is missing in backward.": with_gradient(
        right_step, scale=lambda variance, eps: variance.rsqrt()
    ),
    "backward uses the variance divided by m - 1. forward uses the biased variance.": (
        with_gradient(right_step, unbiased=True)
    ),
    "backward takes its means only over dim 0. With more than two dims, take them over all dims "
    "except 1.": with_gradient(right_step, dims=lambda x: [0]),
    "backward takes its means over dim 1. Take them for each channel: over all dims except 1.": (
        with_gradient(right_step, dims=lambda x: [1])
    ),
    "backward takes its means over the whole tensor. Take them for each channel: over all dims "
    "except 1.": with_gradient(right_step, dims=lambda x: [*range(x.dim())]),
}

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
    suspects=NORM_SUSPECTS,
    gradient_suspects=NORM_GRADIENTS,
    checks=(
        *CONDUCT,
        without(
            "batch_norm",
            "group_norm",
            "instance_norm",
            "layer_norm",
            "native_batch_norm",
            "native_batch_norm_backward",
            "native_layer_norm",
            "native_layer_norm_backward",
            "rms_norm",
            "_fused_rms_norm",
            "native_group_norm",
            "native_group_norm_backward",
            use="mean, var and the projection",
        ),
    ),
)
