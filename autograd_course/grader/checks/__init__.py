"""Checks that test an exercise's constraints: ``(Function, inputs) -> Finding | None``."""

from autograd_course.grader.checks.conduct import (
    CONDUCT,
    backward_is_a_formula,
    no_copy_on_ctx,
    no_gradient_through,
    no_tensor_on_ctx,
    without,
)
from autograd_course.grader.checks.kinks import gradient_at, same_slope_at, slope_within, ties_as
from autograd_course.grader.checks.memory import (
    MANY,
    keeps_at_most,
    peaks_at_most,
    saves_only_outputs,
)
from autograd_course.grader.checks.tiles import makes_at_most, on

__all__ = [
    "CONDUCT",
    "MANY",
    "backward_is_a_formula",
    "gradient_at",
    "keeps_at_most",
    "makes_at_most",
    "no_copy_on_ctx",
    "no_gradient_through",
    "no_tensor_on_ctx",
    "on",
    "peaks_at_most",
    "same_slope_at",
    "saves_only_outputs",
    "slope_within",
    "ties_as",
    "without",
]
