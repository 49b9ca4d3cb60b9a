"""The dtypes that backward itself returns, before the engine casts."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor import Finding
from autograd_course.doctor.running.calls import as_tuple
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import Check


def gradient_dtypes(*inputs: Any) -> Check:
    """Return a check that backward's gradients for ``inputs`` have the dtypes of these.

    ``inputs`` are such that there is something to get wrong: a real tensor beside a complex one.
    """

    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        _, outputs = applied(function, inputs)
        with torch.no_grad():
            raw = function.backward(outputs[0].grad_fn, *map(torch.ones_like, outputs))
        names = inspect.signature(function.forward).parameters
        for name, given, grad in zip([*names][-len(inputs) :], inputs, as_tuple(raw), strict=False):
            if isinstance(grad, Tensor) and grad.dtype != given.dtype:
                return found(
                    "gradient-dtype",
                    f"backward returns a gradient of {grad.dtype} for {name}, which is "
                    f"{given.dtype}; the engine casts it without a word.",
                    {"input": name, "expected": str(given.dtype), "actual": str(grad.dtype)},
                    "What part of the gradient means anything for an input of this dtype?",
                )
        return None

    return check
