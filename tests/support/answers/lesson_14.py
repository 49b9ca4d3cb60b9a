"""Answers to the exercises of lesson 14."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from answers.making import Spoiling, Wrong, double, solved, spoiled
from autograd_course.external import build

SOLVED = solved("14_external_code")
RIGHT = {
    "soft-threshold-operator": SOLVED["soft_threshold"],
    "soft-threshold-function": SOLVED["SoftThreshold"],
}
operator = SOLVED["soft_threshold"]


def operator_of_torch(x: Any, threshold: float) -> Any:
    """Use no C++ at all."""
    if not x.is_floating_point():
        raise TypeError("floating numbers only")
    return torch.nn.functional.softshrink(x, threshold)


class ThresholdWithMask(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, threshold: Any) -> Any:
        y = torch.nn.functional.softshrink(x, threshold.item())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return torch.where(y == 0, 0, g), torch.sum(-torch.sign(y) * g)


backward = Spoiling(RIGHT).backward


# Soft threshold in C++

SOURCE = SOLVED["source"]()


def built(old: str, new: str) -> Any:
    """Return an operator from the right source with one change. It is built when it is called."""
    assert old in SOURCE
    changed = SOURCE.replace(old, new)
    return lambda x, threshold: build(changed).soft_threshold(x, threshold)


def by_name(x: Any, threshold: float) -> Any:
    """Pass the operator a flat copy of x, by the names in the schema."""
    y = build(SOURCE).soft_threshold(t=threshold, x=x.clone().flatten())
    return y.reshape(x.shape)


copied = built("from[i] > t ? from[i] - t : from[i] < -t ? from[i] + t : T(0)", "from[i]")


def copies_the_result(x: Any, threshold: float) -> Any:
    return copied(operator_of_torch(x, threshold), threshold)


def writes_into_x(x: Any, threshold: float) -> Any:
    return x.copy_(operator(x, threshold))


def takes_the_bytes(x: Any, threshold: float) -> Any:
    """Read the bytes of integers as doubles, as an operator without any check does."""
    return operator(x if x.is_floating_point() else x.view(torch.float64), threshold)


def takes_integers(x: Any, threshold: float) -> Any:
    return operator(x.double(), threshold).to(x.dtype)


def always_double(x: Any, threshold: float) -> Any:
    return operator(x.double() if x.is_floating_point() else x, threshold)


def one_sided(x: Any, threshold: float) -> Any:
    return torch.relu(x - threshold) + 0 * operator(x, threshold)


def hard(x: Any, threshold: float) -> Any:
    return torch.where(operator(x, threshold) != 0, x, 0)


class ThresholdSavesTheInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, threshold: Any) -> Any:
        ctx.save_for_backward(x, threshold)
        return operator(x, threshold.item())

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, threshold = ctx.saved_tensors
        outside = x.abs() > threshold
        return g * outside, -(g * outside * x.sign()).sum()


@once_differentiable  # type: ignore[untyped-decorator]
def thresholds_once(ctx: Any, g: Any) -> Any:
    (y,) = ctx.saved_tensors
    return g * (y != 0), -(g * y.sign()).sum()


def shrinks_the_gradient(ctx: Any, y: Any, g: Any) -> Any:
    return operator(g, 0.5), -(g * y.sign()).sum()


def forward_with(formula: Any) -> Any:
    """Return a forward that computes ``formula`` and saves the output."""

    def forward(ctx: Any, x: Any, threshold: Any) -> Any:
        y = formula(x, threshold)
        ctx.save_for_backward(y)
        return y

    return forward


ALSO_RIGHT = {
    "soft threshold by name": ("soft-threshold-operator", by_name),
    "soft threshold by where": ("soft-threshold-function", ThresholdWithMask),
}


OPERATOR, FUNCTION = "soft-threshold-operator", "soft-threshold-function"

SLOPES: list[tuple[str, str, str, Any]] = [
    (
        "one everywhere",
        "wrong-region",
        "The slope of x is 1 everywhere",
        lambda _, y, g: (g, -(g * y.sign()).sum()),
    ),
    (
        "the sign for x",
        "wrong-region",
        "The slope of x is the sign of y",
        lambda _, y, g: (g * y.sign(), -(g * y.sign()).sum()),
    ),
    (
        "no sign for the threshold",
        "gradient-mismatch",
        "is wrong for negative numbers",
        lambda _, y, g: (g * (y != 0), -(g * (y != 0)).sum()),
    ),
    (
        "a mean for the threshold",
        "constant-factor",
        "The gradient of the threshold is a mean",
        lambda _, y, g: (g * (y != 0), -(g * y.sign()).mean()),
    ),
]
WRONG = [
    Wrong(
        OPERATOR,
        "memory read in order",
        "but for every second column of x it is",
        built("torch::stable::contiguous(given)", "given"),
    ),
    Wrong(
        OPERATOR,
        "semicolon forgotten",
        "The C++ does not compile: source.cpp, line 21: expected",
        built(
            "Tensor y = torch::stable::empty_like(x);", "Tensor y = torch::stable::empty_like(x)"
        ),
    ),
    Wrong(OPERATOR, "positive half only", "The result has no negative numbers", one_sided),
    Wrong(OPERATOR, "cut, not shrunk", "but they stay the same", hard),
    Wrong(OPERATOR, "copies the result", "does not receive x", copies_the_result),
    Wrong(OPERATOR, "writes into x", "the operator changes x", writes_into_x),
    Wrong(OPERATOR, "always float64", "but for float32 it is", always_double),
    Wrong(OPERATOR, "integers, right", "raises no error. You can", takes_integers),
    Wrong(OPERATOR, "integers as numbers", "reads the bytes of integers", takes_the_bytes),
    backward(
        FUNCTION, "threshold gets nothing", "missing-gradient", lambda _, y, g: (g * (y != 0), None)
    ),
    backward(
        FUNCTION,
        "threshold's sign",
        "flipped-sign",
        lambda _, y, g: (g * (y != 0), (g * y.sign()).sum()),
    ),
    backward(
        FUNCTION,
        "threshold not summed",
        "unreduced-broadcast",
        lambda _, y, g: (g * (y != 0), -g * y.sign()),
    ),
    backward(
        FUNCTION,
        "positive side only",
        "wrong-region",
        lambda _, y, g: (g * (y > 0), -(g * y.sign()).sum()),
    ),
    backward(
        FUNCTION, "shrinks the gradient instead", "nonlinear-in-grad-output", shrinks_the_gradient
    ),
    *(backward(FUNCTION, mistake, rule, method, hint) for mistake, rule, hint, method in SLOPES),
    *(
        backward(
            FUNCTION, mistake, rule, lambda _, y, g, of_t=of_t: (g * (y != 0), of_t(y, g)), hint
        )
        for mistake, rule, hint, of_t in (
            (
                "signs only",
                "ignores-grad-output",
                "threshold ignores grad_output",
                lambda y, g: -y.sign().sum(),
            ),
            (
                "a product of sums",
                "gradient-mismatch",
                "multiplied by the sum of the signs",
                lambda y, g: -g.sum() * y.sign().sum(),
            ),
        )
    ),
    *(
        Wrong(FUNCTION, mistake, told, spoiled(RIGHT[FUNCTION], forward=forward_with(formula)))
        for mistake, told, formula in (
            (
                "no clamp",
                "Numbers within the threshold pass 0",
                lambda x, t: x.sign() * (x.abs() - t),
            ),
            (
                "two branches",
                "for all other numbers",
                lambda x, t: torch.where(x > t, x - t, x + t),
            ),
        )
    ),
    Wrong(FUNCTION, "saves the input", "oversaved", ThresholdSavesTheInput),
    Wrong(
        FUNCTION,
        "once differentiable",
        "no-double-backward",
        spoiled(RIGHT[FUNCTION], backward=thresholds_once),
    ),
]

KNOWN = [
    (OPERATOR, (double(-2.0, -0.5, 0.1, 3.0), 1.0), double(-1.0, 0.0, 0.0, 2.0)),
    (FUNCTION, (double(-2.0, 0.1, 3.0), torch.tensor(1.0).double()), double(-1.0, 0.0, 2.0)),
]
