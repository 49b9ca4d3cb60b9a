"""Gumbel-softmax, soft

1. Increase one logit slightly. Which entries of y change? A backward that returns g claims that
   only the same entry of y changes, and by the same amount.
2. Take two steps. The input of the softmax is z = (logits + noise)/τ, whose derivative is 1/τ. The
   softmax has ∂yᵢ/∂zⱼ = yᵢ(δᵢⱼ - yⱼ). Multiply this by gᵢ and sum over i, on paper.
3. Return y · (g - (g · y).sum(-1, keepdim=True)) / temperature for the logits, and None for the
   noise and the temperature. Save y, the output.
"""

from autograd_course.exercises.lesson_10_sampling._gumbel import (
    GUMBEL_INPUTS,
    SOFT_GRADIENTS,
    SOFT_SUSPECTS,
    gumbel_softmax,
    noise_gets_none_or_the_truth,
)
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise

EXERCISE = FunctionExercise(
    answer="GumbelSoftmax",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Soft",
    reference=gumbel_softmax,
    samplers=GUMBEL_INPUTS,
    suspects=SOFT_SUSPECTS,
    gradient_suspects=SOFT_GRADIENTS,
    checks=(*CONDUCT, noise_gets_none_or_the_truth),
)
