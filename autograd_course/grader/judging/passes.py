"""One forward and one backward pass of an answer: does it run, and is the output as asked?"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor import Finding
from autograd_course.doctor.running.calls import as_tuple, is_float
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.judging.differing import Difference, difference, recognized
from autograd_course.grader.raised import is_unfinished, told, unfinished_part
from autograd_course.grader.verdict import Verdict, fault, unfinished, wrong


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


def forward_problem(
    exercise: FunctionExercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    """Run forward; say what is wrong with it, or that it is unfinished."""
    try:
        outputs = applied(answer, differentiable(inputs))
    except (Exception, SystemExit) as error:
        if is_unfinished(error, answer):
            if (part := unfinished_part(error)) in exercise.methods:
                return unfinished(f"{part} is still to be written.")
            return unfinished(f"forward is still to be written: {exercise.signature}.")
        return wrong(told("forward", error, answer))
    expected = exercise.reference(*inputs)
    found = difference(as_tuple(outputs), as_tuple(expected))
    if found is None:
        return None
    known = recognized(as_tuple(outputs), exercise.suspects, inputs)
    return fault(_mismatch(found, exercise, inputs, known or found.hint))


def backward_problem(answer: type[Function], inputs: tuple[Any, ...]) -> Verdict | None:
    """Run forward and backward; say what backward raised, or that it is unfinished."""
    outputs = as_tuple(applied(answer, differentiable(inputs)))
    used = [out for out in outputs if isinstance(out, Tensor) and out.requires_grad]
    try:
        if used:
            torch.autograd.backward(used, [torch.rand_like(out) for out in used])
    except (Exception, SystemExit) as error:
        if is_unfinished(error, answer):
            return unfinished("backward is still to be written.")
        return wrong(told("backward", error, answer))
    return None


def passed_back(call: Any, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return the gradients of the inputs for a fixed random ``grad_output``, none if it raises."""
    given = differentiable(inputs)
    leaves = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    rng = torch.Generator().manual_seed(0)
    try:
        outputs = [out for out in as_tuple(call(*given)) if out.requires_grad]
        arriving = [torch.randn(out.shape, generator=rng, dtype=out.dtype) for out in outputs]
        return torch.autograd.grad(outputs, leaves, arriving, materialize_grads=True)
    except Exception:
        return ()


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
