"""The exercises of lesson 03: twelve patterns of gradients, from an activation to a reversal."""

from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.exercises.lesson_03_activations import ACTIVATIONS
from autograd_course.grader.exercises.lesson_03_couplings import COUPLINGS
from autograd_course.grader.exercises.lesson_03_indices import INDICES
from autograd_course.grader.exercises.lesson_03_others import OTHERS
from autograd_course.grader.exercises.lesson_03_reductions import REDUCTIONS

LESSON = "03_gradient_patterns"
TITLE = "Gradient patterns"

EXERCISES: tuple[FunctionExercise, ...] = (
    *ACTIVATIONS,
    *REDUCTIONS,
    *COUPLINGS,
    *INDICES,
    *OTHERS,
)
