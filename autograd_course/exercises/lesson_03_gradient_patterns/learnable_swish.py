"""Swish with a learnable β

1. Two tensors go in, so two gradients come out, each with the shape of its own input. β is one
   number, and every element of y depends on it.
2. β was copied to every element. So its gradient is the sum over all elements of grad_output ·
   ∂y/∂β. In ∂y/∂x, β appears as the inner derivative of σ(βx).
3. With s = σ(βx): ∂y/∂x = s + βx·s(1 - s) and ∂y/∂β = x²·s(1 - s). Multiply each by grad_output,
   sum the second over all elements, and reshape the sum to beta.shape.
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive
from autograd_course.grader.suspecting import returned_by, returning


def learnable_swish(x: Tensor, beta: Tensor) -> Tensor:
    """Return ``x σ(βx)``, where β is a tensor with one element."""
    return x * torch.sigmoid(beta * x)


def without_beta(x: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients computed with σ(x) instead of σ(βx)."""
    s = torch.sigmoid(x)
    slope = s * (1 - s)
    return (s + beta * x * slope) * g, (x * x * slope * g).sum().reshape(beta.shape)


def summed_apart(x: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients in which the gradient of β is a product of two sums."""
    s = torch.sigmoid(beta * x)
    slope = s * (1 - s)
    of_beta = (x * x * slope).sum() * g.sum()
    return (s + beta * x * slope) * g, of_beta.reshape(beta.shape)


def by_the_mean(x: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients in which the sum for β is multiplied by the mean upstream gradient."""
    of_x, of_beta = summed_apart(x, beta, g)
    return of_x, of_beta / g.numel()


def of_beta(formula: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a suspect whose gradient of β is the sum of g · formula(x, s), where s = σ(βx)."""

    def backward(x: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.sigmoid(beta * x)
        right = (s + beta * x * s * (1 - s)) * g
        return right, (formula(x, s) * g).sum().reshape(beta.shape)

    return returning(learnable_swish, backward)


def lacks_inner_derivative(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Find a gradient of x that lacks the inner derivative. Also check the shape for β."""
    x, beta = inputs
    given = x.reshape(-1), beta.reshape(1)
    of_x, *rest = returned_by(function, given)
    s = torch.sigmoid(beta * x).reshape(-1)
    if not torch.allclose(of_x, s + given[0] * s * (1 - s)):
        return None
    hint = "The gradient of x lacks the inner derivative: the inner function of σ(βx) is βx."
    if rest and rest[0] is not None and rest[0].dim() == 0:
        hint += (
            " There is a second mistake: if β has the shape (1,), your gradient of β has no dim. "
            "It needs the shape of β."
        )
    return found("gradient-mismatch", "The gradient of `x` is wrong.", {}, hint)


EXERCISE = FunctionExercise(
    answer="LearnableSwish",
    points=2,
    difficulty="medium",
    minutes=15,
    section="One parameter for all elements",
    constraints="the gradient of β has the shape of β",
    reference=learnable_swish,
    samplers={
        "a 3×5 matrix, β without a dim": lambda rng: (normal(rng, 3, 5), positive(rng)),
        "a vector, β of shape (1,)": lambda rng: (normal(rng, 5), positive(rng, 1)),
        "three dims, a negative β": lambda rng: (normal(rng, 2, 1, 3), -positive(rng, 1)),
        "a single number (0-dim)": lambda rng: (normal(rng), positive(rng)),
    },
    suspects={
        "β is missing inside the sigmoid.": lambda x, beta: x * torch.sigmoid(x),
        "β is outside the sigmoid. In the formula, it is inside.": lambda x, beta: (
            beta * x * torch.sigmoid(x)
        ),
        "β is also a factor outside the sigmoid.": lambda x, beta: (
            beta * x * torch.sigmoid(beta * x)
        ),
    },
    gradient_suspects={
        "`backward` computes σ(x). `forward` uses σ(βx), so β is missing inside the sigmoid.": (
            returning(learnable_swish, without_beta)
        ),
        "The gradient of β lacks a factor x. One x comes from outside the sigmoid, and the inner "
        "derivative is another x.": of_beta(lambda x, s: x * s * (1 - s)),
        "The gradient of β takes x · σ(βx). But β is inside the sigmoid, so its slope s(1 - s) and "
        "the inner derivative x are needed.": of_beta(lambda x, s: x * s),
        "The gradient of β takes σ(βx) for its slope. The slope of the sigmoid is s(1 - s).": (
            of_beta(lambda x, s: x * x * s)
        ),
        "For β, the derivative and grad_output are summed separately. Multiply them element by "
        "element first, and then sum the products.": returning(learnable_swish, summed_apart),
        "For β, the derivative is multiplied by the mean of grad_output. Each element has its own "
        "grad_output: multiply them element by element, and then sum.": returning(
            learnable_swish, by_the_mean
        ),
    },
    checks=CONDUCT,
    causes=(lacks_inner_derivative,),
)
