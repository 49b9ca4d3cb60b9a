"""Checks that limit the size of the largest tensor that an answer creates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import Largest
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import Computed, differentiable
from autograd_course.grader.checks.calling import Followed, computed, found
from autograd_course.grader.checks.operators import seen_inside
from autograd_course.grader.exercise import Check, with_peak
from autograd_course.grader.sampling import generator


def makes_at_most(budget: Callable[..., int], told: str) -> Check:
    """Return a check that fails if a pass creates a tensor of more than ``budget`` bytes.

    ``budget`` is a callable that takes the arguments of forward and returns a number of bytes.
    ``told`` describes the budget in words. The size of a view is the size of its whole storage.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | Computed:
        allowed, followed = budget(*inputs), Followed(function.apply, inputs)
        with Largest() as forward:
            followed(*differentiable(inputs))
        with Largest() as backward:
            followed.backward()
        for where, seen in (("forward", forward), ("backward", backward)):
            if seen.bytes > allowed:
                return _too_large(where, seen, allowed, told)
        return followed.computed()

    return with_peak(seen_inside(check))


def on(inputs: Callable[[torch.Generator], tuple[Any, ...]], check: Check) -> Check:
    """Return a check that runs another check on different inputs, such as longer sequences.

    An answer can recognize these inputs by their size. If the other check does not compare the
    values that the answer computes for them, this check does.
    """

    @wraps(check)  # the marks of the check remain
    def elsewhere(function: type[Function], _: tuple[Any, ...]) -> Finding | Computed:
        values = inputs(generator())
        return check(function, values) or computed(function, values)

    return elsewhere


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
