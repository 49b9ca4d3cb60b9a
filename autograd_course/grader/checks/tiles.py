"""Checks that limit the size of the largest tensor that an answer creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import Largest
from torch import Tensor
from torch.autograd import Function

from autograd_course.engine import run_backward
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import Check


def makes_at_most(budget: Callable[..., int], told: str) -> Check:
    """Return a check that fails if a pass creates a tensor of more than ``budget`` bytes.

    ``budget`` is a callable that takes the arguments of forward and returns a number of bytes.
    ``told`` describes the budget in words. The size of a view is the size of its whole storage.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        allowed = budget(*inputs)
        with Largest() as forward:
            _, outputs = applied(function, inputs)
        with Largest() as backward:
            run_backward(outputs, [torch.ones_like(out) for out in outputs])
        for where, seen in (("forward", forward), ("backward", backward)):
            if seen.bytes > allowed:
                return _too_large(where, seen, allowed, told)
        return None

    return check


def on(inputs: Callable[[], tuple[Any, ...]], *checks: Check) -> Check:
    """Return a check that runs other checks on different inputs, such as longer sequences."""

    def check(function: type[Function], _: tuple[Any, ...]) -> Finding | None:
        given = inputs()
        return next(filter(None, (each(function, given) for each in checks)), None)

    return check


def _too_large(where: str, seen: Largest, allowed: int, told: str) -> Finding:
    return found(
        "oversaved",
        f"`{where}` creates a tensor of shape {seen.shape} ({seen.bytes:,} bytes). This exercise "
        f"allows {allowed:,} bytes: {told}.",
        {"shape": seen.shape, "bytes": seen.bytes, "budget": allowed, "operation": seen.operation},
        f"The operation `{seen.operation}` in `{where}` creates it. Which part of it do you need "
        "at a time?",
    )


def elements(*tensors: Any) -> int:
    """Return the total number of elements in all tensors. Ignore other values."""
    return sum(tensor.numel() for tensor in tensors if isinstance(tensor, Tensor))
