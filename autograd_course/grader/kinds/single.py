"""The same call in float32, which is what nearly everybody trains in: is it the same function?"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import torch
from autograd_doctor import Finding
from torch import Tensor

from autograd_course.grader.calls import as_tuple, differentiated
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.comparison import Difference, difference
from autograd_course.grader.execution import Raised, passed_back
from autograd_course.grader.verdict import Verdict, fault, raised_error

Inputs = tuple[Any, ...]
# Of the largest number. Sums in another order lose a hundredth of it; half the gradient is a half.
_TOLERANCE = 1e-3
_SINGLE = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_HINT = "It is right in float64. Which step of your code depends on the dtype?"


class Called(Protocol):
    """What it takes to ask: see ``Witness``."""

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Return what one forward pass returns, or how it raised."""

    def backward(self, inputs: Inputs) -> Raised | None:
        """Return how a backward pass raised."""

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, none where that raises."""


def single_verdict(exercise: FunctionExercise, called: Called, inputs: Inputs) -> Verdict | None:
    """Return the verdict on what float32 inputs give, beside what they give the reference."""
    single = tuple(map(_in_single, inputs))
    try:
        expected = as_tuple(exercise.reference(*single))
    except Exception:  # what the reference cannot do is not asked for
        return None
    came = called.forward(single)
    if isinstance(came, Raised):
        return raised_error(f"in float32, {came.told}") if came.told else None
    if found := _off(came, expected, "in float32, `forward`"):
        return fault(_finding("forward-mismatch", found))
    return _gradient_verdict(exercise, called, single)


def _gradient_verdict(exercise: FunctionExercise, called: Called, single: Inputs) -> Verdict | None:
    truth = passed_back(exercise.surrogate or exercise.reference, single)
    came = called.gradients(single) if truth else ()
    if len(came) != len(truth):
        raised = called.backward(single)
        return raised_error(f"in float32, {raised.told}") if raised else None
    for name, got, right in zip(_names(exercise, single), came, truth, strict=True):
        if found := _off((got,), (right,), f"in float32, the gradient of `{name}`"):
            return fault(_finding("gradient-mismatch", found))
    return None


def _in_single(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.dtype not in _SINGLE:
        return value
    return value.detach().to(_SINGLE[value.dtype]).requires_grad_(value.requires_grad)


def _names(exercise: FunctionExercise, inputs: Inputs) -> list[str]:
    names = list(inspect.signature(exercise.reference).parameters)
    return [names[place] for place in differentiated(inputs)]


def _off(came: Inputs, expected: Inputs, what: str) -> Difference | None:
    finite = [out.abs().nan_to_num(0, 0, 0) for out in expected if out.numel()]
    largest = max((float(out.max()) for out in finite), default=0.0)
    return difference(came, expected, what, _TOLERANCE, _TOLERANCE * largest)


def _finding(rule: str, found: Difference) -> Finding:
    return Finding(rule, "error", found.message, dict(found.evidence), _HINT, "01_template")
