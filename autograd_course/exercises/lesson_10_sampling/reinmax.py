"""ReinMax

1. backward needs J(q)ᵀg for two different q. How do you get each q? Is it an input, is it the
   output, or can you compute it from them?
2. p = softmax(logits) and m = (p + y)/2. Save logits and the output y, and compute p and m in
   backward. A helper that computes q · (g - (g · q).sum(-1, keepdim=True)) saves you a line.
3. In setup_context, call ctx.save_for_backward(inputs[0], output). In backward, compute 2 times the
   helper at m minus half the helper at p. Return the result for the logits, and None for the noise.
"""

import torch
from torch import Tensor

from autograd_course.exercises.lesson_10_sampling._gumbel import logits_and_noise, one_hot_sample
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise


def second_order(logits: Tensor, noise: Tensor) -> Tensor:
    """Return ReinMax's surrogate, which is a difference between two softmaxes.

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
        "three samples of five classes": lambda rng: logits_and_noise(rng, 3, 5),
        "one sample": lambda rng: logits_and_noise(rng, 4),
        "two leading axes, one of length 1": lambda rng: logits_and_noise(rng, 2, 1, 3),
        "two classes": lambda rng: logits_and_noise(rng, 5, 2),
    },
    gradient_suspects={
        "This is the plain straight-through gradient, J(p)ᵀg. ReinMax also needs the slope at m, "
        "the mean of p and y.": first_order,
        "Compute p from the logits alone. The noise only decides which y is drawn.": with_the_noise,
    },
    double_backward=False,
    checks=CONDUCT,
)
