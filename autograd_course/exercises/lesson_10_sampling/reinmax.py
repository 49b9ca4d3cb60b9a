"""ReinMax

1. backward needs J(q)ᵀg for two different q. How do you get each q? Is it an input, is it the
   output, or can you compute it from them?
2. p = softmax(logits) and m = (p + y)/2. Save logits and the output y, and compute p and m in
   backward. A helper that computes q · (g - (g · q).sum(-1, keepdim=True)) saves you a line.
3. In setup_context, call ctx.save_for_backward(inputs[0], output). In backward, compute 2 times the
   helper at m minus half the helper at p. Return the result for the logits, and None for the noise.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_10_sampling._gumbel import (
    HARD_SUSPECTS,
    last_never_wins,
    logits_and_noise,
    one_hot_sample,
    through_softmax,
)
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.suspecting import mistaken


def second_order(logits: Tensor, noise: Tensor) -> Tensor:
    """Return ReinMax's surrogate, a weighted difference of two softmaxes.

    A constant added to the logits makes the first softmax equal to ``m``, the mean of ``p`` and
    ``y``.
    """
    p = logits.softmax(-1)
    m = (p + one_hot_sample(logits, noise)) / 2
    return 2 * (logits + (m.log() - logits).detach()).softmax(-1) - p / 2


def first_order(logits: Tensor, noise: Tensor) -> Tensor:
    """Return the surrogate of the straight-through estimator."""
    return logits.softmax(-1)


def with_the_noise(logits: Tensor, noise: Tensor) -> Tensor:
    """Return the result of ``second_order``, but incorrectly add the noise to the logits."""
    return second_order(logits + noise, torch.zeros_like(noise))


def averaged(
    of_m: float = 2.0,
    of_p: float = -0.5,
    m: Callable[[Tensor, Tensor], Tensor] = lambda p, y: (p + y) / 2,
    slope: Callable[[Tensor, Tensor], Tensor] = through_softmax,
) -> Callable[..., Any]:
    """Return ReinMax with different factors, a different ``m(p, y)`` or a different slope."""

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor]:
        logits, noise = inputs
        p, y = logits.softmax(-1), one_hot_sample(logits, noise)
        return (of_m * slope(m(p, y), g) + of_p * slope(p, g),)

    return mistaken(one_hot_sample, backward)


def _sum_with_p(inputs: Any, g: Tensor) -> tuple[Tensor]:
    p = inputs[0].softmax(-1)
    m = (p + one_hot_sample(*inputs)) / 2
    return (2 * m * (g - (g * p).sum(-1, keepdim=True)) - through_softmax(p, g) / 2,)


def _mean_of_slopes(inputs: Any, g: Tensor) -> tuple[Tensor]:
    p, y = inputs[0].softmax(-1), one_hot_sample(*inputs)
    at_m = (through_softmax(p, g) + through_softmax(y, g)) / 2
    return (2 * at_m - through_softmax(p, g) / 2,)


def _without_the_noise(inputs: Any, g: Tensor) -> tuple[Tensor]:
    logits, noise = inputs
    p, y = logits.softmax(-1), one_hot_sample(logits, 0 * noise)
    return (2 * through_softmax((p + y) / 2, g) - through_softmax(p, g) / 2,)


def _mixed_before(inputs: Any, g: Tensor) -> tuple[Tensor]:
    p = inputs[0].softmax(-1)
    m = (p + one_hot_sample(*inputs)) / 2
    return (through_softmax(2 * m - p / 2, g),)


REINMAX_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "This is the plain straight-through gradient, J(p)ᵀg. ReinMax also needs the slope at m, "
    "the mean of p and y.": first_order,
    "Compute p from the logits alone. The noise only decides which y is drawn.": with_the_noise,
    "The first term lacks its factor 2. The gradient is 2 J(m)ᵀg - ½ J(p)ᵀg.": averaged(of_m=1),
    "The second term lacks its factor ½. The gradient is 2 J(m)ᵀg - ½ J(p)ᵀg.": averaged(of_p=-1),
    "Both factors are missing. The gradient is 2 J(m)ᵀg - ½ J(p)ᵀg.": averaged(1, -1),
    "The second term is added. It must be subtracted.": averaged(of_p=0.5),
    "The second term, -½ J(p)ᵀg, is missing.": averaged(of_p=0),
    "This is only the slope at m, J(m)ᵀg. The gradient is 2 J(m)ᵀg - ½ J(p)ᵀg.": averaged(1, 0),
    "You take the mean of the two slopes. The gradient is 2 J(m)ᵀg - ½ J(p)ᵀg.": (
        averaged(0.5, 0.5)
    ),
    "In J(m)ᵀg, the sum contains p. Each J(q) uses the same q in front and in its sum.": mistaken(
        one_hot_sample, _sum_with_p
    ),
    "This is the mean of J(p)ᵀg and J(y)ᵀg. J(q)ᵀg contains q twice, so the mean of two slopes is "
    "not the slope at m. First take the mean of p and y.": mistaken(
        one_hot_sample, _mean_of_slopes
    ),
    "y is not the sample that forward drew. You draw it again, but without the noise. Use the "
    "output, and save it.": mistaken(one_hot_sample, _without_the_noise),
    "You apply J to 2m - ½p. J(q)ᵀg contains q twice, so apply it to m and to p, and combine the "
    "results.": mistaken(one_hot_sample, _mixed_before),
    "The factors are exchanged: J(m)ᵀg gets the factor 2, and J(p)ᵀg gets -½.": averaged(-0.5, 2),
    "m is p + y in your formula. It must be half of this sum, so that m sums to 1.": (
        averaged(m=lambda p, y: p + y)
    ),
    "m is y in your formula. It must be the mean of p and y.": averaged(m=lambda p, y: y),
    "J(q)ᵀg lacks the factor q in front: it is q · (g - (g · q).sum(-1)).": averaged(
        slope=lambda q, g: g - (g * q).sum(-1, keepdim=True)
    ),
    "J(q)ᵀg has the sum of g alone. It must be the sum of g · q.": averaged(
        slope=lambda q, g: q * (g - g.sum(-1, keepdim=True))
    ),
    "q · (1 - q) is only the diagonal of J(q). Use q · (g - (g · q).sum(-1)).": averaged(
        slope=lambda q, g: q * (1 - q) * g
    ),
    "J(q)ᵀg is not q · g. Subtract the sum: q · (g - (g · q).sum(-1)).": averaged(
        slope=lambda q, g: q * g
    ),
    "The sum in J(q)ᵀg runs over the whole tensor. Sum over the last dim.": averaged(
        slope=lambda q, g: q * (g - (g * q).sum())
    ),
    "grad_output passes unchanged. The gradient is 2 J(m)ᵀg - ½ J(p)ᵀg.": mistaken(
        one_hot_sample, lambda inputs, g: (g,)
    ),
}


EXERCISE = FunctionExercise(
    answer="ReinMax",
    points=3,
    difficulty="medium",
    minutes=15,
    section="ReinMax",
    constraints="the probabilities do not contain the noise",
    reference=one_hot_sample,
    surrogate=second_order,
    samplers={
        "eight samples of five classes": lambda rng: logits_and_noise(rng, 8, 5),
        "one sample": lambda rng: logits_and_noise(rng, 4),
        "two leading axes, one of length 1": lambda rng: logits_and_noise(rng, 2, 1, 3),
        "the last class never wins": lambda rng: last_never_wins(rng, 3, 4),
        "two classes": lambda rng: logits_and_noise(rng, 5, 2),
    },
    suspects=HARD_SUSPECTS,
    gradient_suspects=REINMAX_GRADIENTS,
    double_backward=False,
    checks=CONDUCT,
)
