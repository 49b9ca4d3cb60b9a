"""Wrap the reference as an answer, so that the judge can ask it the same questions as an answer.

If the judge can grade the reference but not the submitted answer, the grader itself is not broken.
The reference runs in a separate child process, which never runs a learner's code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.execution import differentiable
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    LocatingExercise,
    PredictionExercise,
    RoutineExercise,
)


def stub_submission(exercise: Exercise) -> Callable[[], Any]:
    """Return a function that creates the reference answer to an exercise."""
    match exercise:
        case FunctionExercise():
            truth = exercise.surrogate or exercise.reference
            return partial(_function, exercise.reference, truth)
        case RoutineExercise():
            return partial(_routine, exercise.reference)
        case LocatingExercise():
            return partial(str, exercise.wrong_lines[0] + exercise.experiment)
        case PredictionExercise():
            return partial(list, exercise.outcome())
    raise TypeError(f"no answer can stand in for a {type(exercise).__name__}")


def _routine(reference: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: reference(*inputs)


def _function(reference: Callable[..., Any], truth: Callable[..., Any]) -> type[Function]:
    """Return a Function that calls the reference. Its backward differentiates ``truth``."""

    class StandIn(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.inputs = inputs
            return reference(*inputs)

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            with torch.enable_grad():
                given = differentiable(ctx.inputs)
                outputs = as_tuple(truth(*given))
            leaves = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
            used = [place for place, out in enumerate(outputs) if out.requires_grad]
            came = iter(torch.autograd.grad(
                [outputs[place] for place in used], leaves,
                [grad_outputs[place] for place in used], allow_unused=True,
            ))  # fmt: skip
            return tuple(next(came) if any(x is leaf for leaf in leaves) else None for x in given)

    return StandIn
