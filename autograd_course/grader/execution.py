"""One forward and one backward pass of an answer: does it run, and is the output as asked?"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.calls import as_tuple, differentiated, is_float
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.comparison import Difference, difference, recognized
from autograd_course.grader.raised import is_unfinished, not_written, told, unfinished_part
from autograd_course.grader.verdict import Verdict, fault, raised_error, unfinished


@dataclass(frozen=True)
class Raised:
    """A pass raised: one sentence that tells it, and the method that is a stub, if that is why."""

    told: str
    unwritten: str = ""


def raised(method: str, error: BaseException, answer: type[Function]) -> Raised:
    """Return what an exception in ``method`` tells."""
    part = unfinished_part(error) if is_unfinished(error, answer) else ""
    return Raised(told(method, error, answer), part)


def differentiable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``inputs`` with each float or complex tensor copied and asking for a gradient.

    The copies are no leaves, so that a Function may work in place on them, as on a hidden layer.
    """
    return tuple(
        value.detach().requires_grad_().clone() if is_float(value) else value for value in inputs
    )


def applied(function: type[Function], inputs: tuple[Any, ...]) -> Any:
    """Return what the Function returns for ``inputs``."""
    return function.apply(*inputs)


def forward_run(answer: type[Function], inputs: tuple[Any, ...]) -> tuple[Any, ...] | Raised:
    """Run forward; return what it returns, or how it raised."""
    try:
        return as_tuple(applied(answer, differentiable(inputs)))
    except (Exception, SystemExit) as error:
        return raised("forward", error, answer)


def forward_verdict(
    exercise: FunctionExercise, came: tuple[Any, ...] | Raised, inputs: tuple[Any, ...]
) -> Verdict | None:
    """Say what is wrong with what came of forward, or that it is unfinished."""
    if isinstance(came, Raised):
        if came.unwritten in exercise.methods:
            return unfinished(not_written(came.unwritten))
        if came.unwritten:
            return unfinished(f"you have not written `forward` yet: {exercise.signature}.")
        return raised_error(came.told)
    found = difference(came, as_tuple(exercise.reference(*inputs)))
    if found is None:
        return None
    known = recognized(came, exercise.suspects, inputs)
    return fault(_mismatch(found, exercise, inputs, known or found.hint))


def backward_run(answer: type[Function], inputs: tuple[Any, ...]) -> Raised | None:
    """Run forward and backward; return how backward raised."""
    outputs = as_tuple(applied(answer, differentiable(inputs)))
    used = [out for out in outputs if isinstance(out, Tensor) and out.requires_grad]
    try:
        if used:
            torch.autograd.backward(used, [torch.rand_like(out) for out in used])
    except (Exception, SystemExit) as error:
        return raised("backward", error, answer)
    return None


def backward_verdict(came: Raised | None) -> Verdict | None:
    """Say what backward raised, or that it is unfinished."""
    if came is None:
        return None
    return (
        unfinished("you have not written `backward` yet.")
        if came.unwritten
        else raised_error(came.told)
    )


def passed_back(call: Any, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return the gradients of the inputs for a fixed random ``grad_output``, none if it raises.

    Which inputs: those that ask for a gradient, or all where none does, as in ``diagnose``.
    """
    given = [value.detach().clone() if is_float(value) else value for value in inputs]
    leaves = [given[place].requires_grad_() for place in differentiated(inputs)]
    rng = torch.Generator().manual_seed(0)
    try:
        # A Function that works in place overwrites what it is given: never the leaf itself.
        came = call(*(value.clone() if is_float(value) else value for value in given))
        outputs = [out for out in as_tuple(came) if out.requires_grad]
        arriving = [torch.randn(out.shape, generator=rng, dtype=out.dtype) for out in outputs]
        return torch.autograd.grad(outputs, leaves, arriving, materialize_grads=True)
    except Exception:
        return ()


def recognized_gradients(
    exercise: FunctionExercise,
    gradients: tuple[Tensor, ...],
    inputs: tuple[Any, ...],
    found: Finding,
) -> Finding:
    """Return the finding, with the hint of the suspect that passes these gradients back."""
    truth = exercise.surrogate or exercise.reference
    if difference(gradients, passed_back(truth, inputs)) is None:
        return found  # what is wrong is something else, and right gradients name no mistake
    for sentence, suspect in exercise.gradient_suspects.items():
        if difference(gradients, passed_back(suspect, inputs)) is None:
            return replace(found, hint=sentence)
    return found


def _mismatch(
    found: Difference, exercise: FunctionExercise, inputs: tuple[Any, ...], hint: str
) -> Finding:
    """Return the finding; to a wrong element add what inputs of its shape hold at its index."""
    evidence = dict(found.evidence)
    if "index" in evidence:
        names = inspect.signature(exercise.reference).parameters
        evidence["given"] = {
            name: value[tuple(evidence["index"])].item()
            for name, value in zip(names, inputs, strict=False)
            if isinstance(value, Tensor) and value.shape == evidence["shape"]
        }
    return Finding("forward-mismatch", "error", found.message, evidence, hint, "01_template")
