"""Tier 2: backward

1. Go backward through three steps, one at a time: O = P V, then P = softmax(S), then S = Q Kᵀ / √E.
   Write down the shape of every gradient before its formula.
2. The two matrix products work as in lesson 03: the gradient of each factor is g times the other
   factor. The softmax couples the weights of a row: dS = P ∘ (dP - D), with one number D for each
   row.
3. dV = Pᵀ dO, dP = dO Vᵀ, dS = P ∘ (dP - rowsum(P ∘ dP)), dQ = dS K / √E, dK = dSᵀ Q / √E. You need
   no extra code for a masked row, because P is 0 there. Return None for mask.
"""

from autograd_course.exercises.lesson_08_attention_challenge._constraints import OWN_WORK
from autograd_course.exercises.lesson_08_attention_challenge._forward_mistakes import SUSPECTS
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    GRADIENT_SUSPECTS,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import MASKED
from autograd_course.exercises.lesson_08_attention_challenge._references import attend
from autograd_course.grader.exercise import FunctionExercise

EXERCISE = FunctionExercise(
    answer="Attention",
    points=3,
    difficulty="medium",
    minutes=20,
    section="Backward, one product at a time",
    constraints="backward is a formula that you wrote",
    reference=attend,
    samplers=MASKED,
    suspects=SUSPECTS,
    gradient_suspects=GRADIENT_SUSPECTS,
    double_backward=False,
    checks=OWN_WORK,
)
