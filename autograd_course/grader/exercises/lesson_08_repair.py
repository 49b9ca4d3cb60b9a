"""What the repairs of lesson 08 have in common."""

from typing import Any

from autograd_course.grader.checks import backward_is_a_formula, no_tensor_on_ctx
from autograd_course.grader.exercise import Check, FunctionExercise

CHECKS: tuple[Check, ...] = (backward_is_a_formula, no_tensor_on_ctx)


def repair(**described: Any) -> FunctionExercise:
    """Return an exercise of one point in which a patient is to be repaired."""
    usual: dict[str, Any] = {
        "lesson": "08_debugging_clinic",
        "points": 1,
        "checks": CHECKS,
    }
    return FunctionExercise(**{**usual, **described})
