"""Gumbel-softmax, soft

1. Raise one logit by a little. Which entries of y change? A gradient that is g itself says: only
   the one entry, and by as much.
2. Take it in two steps. The argument of the softmax is (logits + noise)/τ, an inner derivative. The
   softmax has ∂yᵢ/∂zⱼ = yᵢ(δᵢⱼ - yⱼ): multiply from the left by g and sum over i, before you write
   any code.
3. y · (g - (g · y).sum(-1, keepdim=True)) / temperature for the logits, None for noise and
   temperature. Save y, the output.
"""

from autograd_course.exercises.lesson_05_straight_through._gumbel import (
    GUMBEL_INPUTS,
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
    checks=(*CONDUCT, noise_gets_none_or_the_truth),
)
