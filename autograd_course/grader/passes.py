"""One forward and one backward pass of an answer: does it run, and is the output as asked?"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor import Finding
from autograd_course.doctor.running.calls import as_tuple
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.raised import is_unfinished, told
from autograd_course.grader.verdict import Verdict, fault, unfinished, wrong

RTOL, ATOL = 1e-7, 1e-9  # float64; another order of the same operations differs by far less


def differentiable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return ``inputs`` with each floating tensor copied and asking for a gradient."""
    return tuple(
        value.detach().clone().requires_grad_()
        if isinstance(value, Tensor) and value.is_floating_point()
        else value
        for value in inputs
    )


def applied(function: type[Function], inputs: tuple[Any, ...]) -> Any:
    """Return what the Function returns for ``inputs``."""
    return function.apply(*inputs)


def forward_problem(
    exercise: Exercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    """Run forward; say what is wrong with it, or that it is unfinished."""
    try:
        outputs = applied(answer, differentiable(inputs))
    except (Exception, SystemExit) as error:
        if is_unfinished(error, answer):
            return unfinished(f"forward is still to be written: {exercise.signature}.")
        return wrong(told("forward", error, answer))
    expected = exercise.reference(*inputs)
    difference = _difference(as_tuple(outputs), as_tuple(expected))
    return fault(_with_inputs(difference, exercise, inputs))


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


def _with_inputs(
    finding: Finding | None, exercise: Exercise, inputs: tuple[Any, ...]
) -> Finding | None:
    """Add to a wrong element what the inputs of its shape hold at the same index."""
    if finding is None or "index" not in finding.evidence:
        return finding
    names = inspect.signature(exercise.reference).parameters
    index, shape = tuple(finding.evidence["index"]), finding.evidence["shape"]
    given = {
        name: value[index].item()
        for name, value in zip(names, inputs, strict=False)
        if isinstance(value, Tensor) and value.shape == shape
    }
    return replace(finding, evidence={**finding.evidence, "given": given})


def _difference(actual: tuple[Any, ...], expected: tuple[Tensor, ...]) -> Finding | None:
    """Compare the outputs with the reference's: their number, type, shape, then their values."""
    if len(actual) != len(expected):
        return _mismatch(f"forward returns {len(actual)} values; asked for is {len(expected)}.")
    for number, (got, right) in enumerate(zip(actual, expected, strict=True)):
        name = "forward" if len(expected) == 1 else f"output {number} of forward"
        if not isinstance(got, Tensor):
            hint = "Is the return statement of forward missing?" if got is None else ""
            return _mismatch(f"{name} is {_described(got)}; a tensor is asked for.", hint)
        if got.shape != right.shape:
            return _mismatch(
                f"{name} has shape {tuple(got.shape)}; {tuple(right.shape)} is asked for.",
                expected=tuple(right.shape),
                actual=tuple(got.shape),
            )
        if got.dtype != right.dtype:
            return _mismatch(
                f"{name} has dtype {got.dtype}; {right.dtype}, the inputs', is asked for."
            )
        if finding := _value_difference(name, got.detach(), right.detach()):
            return finding
    return None


def _value_difference(name: str, got: Tensor, right: Tensor) -> Finding | None:
    """Return the finding for the element that is farthest off, NaN before all others."""
    close = torch.isclose(got, right, rtol=RTOL, atol=ATOL)
    if bool(close.all()):
        return None
    error = (got - right).abs().nan_to_num(nan=float("inf"))
    index = [int(i) for i in torch.unravel_index(error.argmax(), right.shape)]
    return _mismatch(
        f"{name} is wrong at {int((~close).sum())} of {close.numel()} elements.",
        input=name,
        index=index,
        shape=tuple(right.shape),
        expected=right[tuple(index)].item(),
        actual=got[tuple(index)].item(),
    )


def _mismatch(message: str, hint: str = "", **evidence: Any) -> Finding:
    return Finding(
        rule="forward-mismatch",
        severity="error",
        message=message,
        evidence=evidence,
        hint=hint or "Work the forward formula out by hand for one element and compare.",
        lesson="01_template",
    )


def _described(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
