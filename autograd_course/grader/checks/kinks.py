"""Checks of gradients at kinks, where a function has no derivative."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import differentiable
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import Check, by_values


def slope_within(low: float, high: float, at: float) -> Check:
    """Return a check that requires a gradient between the slopes on the two sides of a kink."""

    @by_values
    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        got = float(_gradient(function.apply, (torch.tensor([at], dtype=torch.float64),))[1])
        if low <= got <= high:
            return None
        return _off_convention(f"any slope from {low:g} to {high:g}", at, got)

    return check


def gradient_at(reference: Any, *inputs: Any) -> Check:
    """Return a check that compares the gradient at the kinks ``inputs`` with the reference's."""
    names = list(inspect.signature(reference).parameters)[1:]
    given = ", ".join(f"{name} {value:g}" for name, value in zip(names, inputs[1:], strict=False))
    others = f" (with {given})" if given else ""

    @by_values
    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        points, expected = _gradient(reference, inputs)
        actual = _gradient(function.apply, inputs)[1]
        for at, right, got in zip(*(t.tolist() for t in (points, expected, actual)), strict=True):
            if right != got:
                return _off_convention(f"{right:g}{others}", at, got)
        return None

    return check


def same_slope_at(slopes: tuple[float, ...], *inputs: Any) -> Check:
    """Return a check that the gradient is the same at all kinks and is one of ``slopes``."""
    asked = " or ".join(f"{slope:g}" for slope in slopes)

    @by_values
    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        points, actual = _gradient(function.apply, inputs)
        if any((actual == slope).all() for slope in slopes):
            return None
        return found(
            "kink-convention",
            f"at x = {_listed(points)} the gradient is {_listed(actual)}, but this exercise asks "
            f"for the same value at each kink, {asked}. Everywhere else it is right.",
            {"at": points.tolist(), "actual": actual.tolist()},
            "The derivative does not exist at a kink, so you choose a convention. Which of your "
            "comparisons include the kink, and which do not?",
        )

    return check


def ties_as(
    reference: Any, *inputs: Any, beside: str = "It is right where no two elements tie."
) -> Check:
    """Return a check that compares the gradients of tied elements with the reference's gradients.

    The first of the ``inputs`` is a vector with equal or nearly equal elements, which the answer
    reduces to one number. ``beside`` is a sentence about the correct gradient or about the task.
    """

    @by_values
    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        points, expected = _gradient(reference, inputs)
        actual = _gradient(function.apply, inputs)[1]
        if torch.allclose(actual, expected):
            return None
        at, right, got = (_listed(t) for t in (points, expected, actual))
        return found(
            "kink-convention",
            f"at x = {at} the gradient is {got}, but this exercise asks for {right} there. "
            f"{beside}",
            {"at": points.tolist(), "actual": actual.tolist()},
            "The derivative does not exist where elements tie, so the exercise states a "
            "convention. How many elements share the value, and which gradient does your formula "
            "give to each?",
        )

    return check


def _listed(vector: Tensor) -> str:
    return f"[{', '.join(f'{value:.7g}' for value in vector.tolist())}]"


def _off_convention(asked: str, at: float, got: float) -> Finding:
    return found(
        "kink-convention",
        f"at exactly x = {at:g} the gradient is {got:g}, but this exercise asks for {asked} there. "
        "Everywhere else it is right.",
        {"at": at, "actual": got},
        "The derivative does not exist at a kink, so the author chooses a value. What does your "
        "formula give there? Should each comparison in it include the bound?",
    )


def _gradient(call: Any, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Return the first input (a vector) and its gradient if the loss is the sum of the output."""
    given = differentiable(inputs)
    (gradient,) = torch.autograd.grad(call(*given).sum(), given[0])
    return given[0].detach(), gradient
