"""Tier 3: budget

1. You cannot save a tensor that has a column for each key. What is the least that backward needs,
   in addition to q and k, to recompute the weights?
2. P = exp(S - L), where L is the logarithm of the sum of the exponentials of a row. This is one
   number per query. D does not need P: rowsum(P ∘ dP) = rowsum(dO ∘ O).
3. In forward, compute L = high + log(total), and save q, k, v, mask, out, L. In backward, recompute
   S with the mask, as in forward, and P = exp(S - L[..., None]). Where L = -∞, this would be nan,
   so use 0 instead of L there.
"""

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    OWN_WORK,
    keeps_little,
)
from autograd_course.exercises.lesson_08_attention_challenge._forward_mistakes import SUSPECTS
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    GRADIENT_SUSPECTS,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import MASKED
from autograd_course.exercises.lesson_08_attention_challenge._references import attend
from autograd_course.grader.checks import no_copy_on_ctx
from autograd_course.grader.exercise import FunctionExercise

EXERCISE = FunctionExercise(
    answer="LeanAttention",
    points=3,
    difficulty="medium",
    minutes=25,
    section="Save one number for each row",
    constraints="only q, k, v, the output and one number for each query are saved",
    reference=attend,
    samplers=MASKED,
    suspects=SUSPECTS,
    gradient_suspects=GRADIENT_SUSPECTS,
    double_backward=False,
    checks=(*OWN_WORK, no_copy_on_ctx, keeps_little),
)
