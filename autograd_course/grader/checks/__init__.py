"""What single exercises ask beyond right gradients: ``(Function, inputs) -> Finding | None``."""

from autograd_course.grader.checks.conduct import (
    CONDUCT,
    backward_is_a_formula,
    no_copy_on_ctx,
    no_gradient_through,
    no_tensor_on_ctx,
    without,
)
from autograd_course.grader.checks.kinks import gradient_at, slope_within, ties_as
from autograd_course.grader.checks.memory import keeps_at_most, peaks_at_most, saves_only_outputs
from autograd_course.grader.checks.mixed import same_under_autocast
from autograd_course.grader.checks.tiles import makes_at_most, on
from autograd_course.grader.checks.transforms import (
    compiles_whole,
    jvp_takes_a_batch,
    one_call_for_the_batch,
)

__all__ = [
    "CONDUCT",
    "backward_is_a_formula",
    "compiles_whole",
    "gradient_at",
    "jvp_takes_a_batch",
    "keeps_at_most",
    "makes_at_most",
    "no_copy_on_ctx",
    "no_gradient_through",
    "no_tensor_on_ctx",
    "on",
    "one_call_for_the_batch",
    "peaks_at_most",
    "same_under_autocast",
    "saves_only_outputs",
    "slope_within",
    "ties_as",
    "without",
]
