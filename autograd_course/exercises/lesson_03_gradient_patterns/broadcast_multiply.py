"""Multiply with broadcasting

1. The product rule gives y · g for x, with the shape of the output. Along which dims was x copied?
   In each of them, x has size 1, or x does not have this dim.
2. A copy in the forward pass is a sum in the backward pass. Sum over two kinds of dims. The leading
   dims that x does not have disappear. The dims where x has size 1 keep the size 1.
3. Write a helper. While the gradient has more dims than x, sum over dim 0. Then for every dim where
   x.shape has a 1, call sum(dim, keepdim=True). Tensor.sum_to_size does the same. Use it on y · g
   for x, and on x · g for y.
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import Check, FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by


def broadcast_multiply(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x · y`` for shapes that broadcast."""
    return x * y


def shapes_of(
    function: type[Function], x: tuple[int, ...], y: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the gradients for inputs of these two shapes."""
    ones = torch.ones(x, dtype=torch.float64), torch.ones(y, dtype=torch.float64)
    return tuple(tuple(gradient.shape) for gradient in returned_by(function, ones))


def sums_over_everything(rule: str) -> Check:
    """Return a check that backward sums over no dim if the inputs have the same shape."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        try:
            of_x = shapes_of(function, (2, 3), (2, 3))[0]
        except RuntimeError as error:  # a single number has no other shape
            of_x = () if "size 1" in str(error) else (2, 3)
        if of_x != ():
            return None
        return found(
            rule,
            "The gradient is a single number.",
            {},
            "For two inputs of the same shape, the gradient of x is a single number, so it was "
            "summed over all dims. PyTorch's sum does this too if it gets an empty list of dims. "
            "If no dim was copied, do not sum.",
        )

    return check


def loses_dims_of_size_1(rule: str) -> Check:
    """Return a check that a gradient keeps the dims of size 1 over which backward sums."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        if shapes_of(function, (3, 1), (1, 4))[0] != (3,):
            return None
        return found(
            rule,
            "A dim of size 1 is lost.",
            {},
            "For a column of the shape (3, 1), the gradient has the shape (3,). The sum over a dim "
            "of size 1 removes this dim. It must keep it.",
        )

    return check


def sums_over_the_last(rule: str) -> Check:
    """Return a check that backward treats the dims that an input lacks as leading dims."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        if shapes_of(function, (3, 5), (5,))[1] != (3,):
            return None
        return found(
            rule,
            "The sum is over the last dim.",
            {},
            "For a 3×5 matrix and a vector of 5, the gradient of the vector has the shape (3,). "
            "Broadcasting aligns the last dims, so the dims that an input lacks are the first "
            "ones. Sum over those.",
        )

    return check


def sums_one_dim_only(rule: str) -> Check:
    """Return a check that backward sums over all leading dims that the input lacks."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        if shapes_of(function, (4,), (2, 3, 4))[0] != (3, 4):
            return None
        return found(
            rule,
            "One leading dim is summed.",
            {},
            "For a vector and three dims, the gradient of the vector still has two dims. Your sum "
            "is over one of the leading dims that the vector lacks. There can be several, so "
            "repeat it: use `while` instead of `if`.",
        )

    return check


def aligns_the_first_dims(rule: str) -> Check:
    """Return a check that backward aligns the last dims of the gradient and the input."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        try:
            of_square, of_column = (
                shapes_of(function, (3, 3), (3,))[1],
                shapes_of(function, (3, 1), (2, 3, 4))[0],
            )
        except RuntimeError:
            of_square, of_column = (), (1,)
        if of_square == (3,) and of_column[:1] != (1,):
            return None
        if shapes_of(function, (3, 5), (5,)) != ((3, 5), (5,)):
            return None
        return found(
            rule,
            "The first dims are compared.",
            {},
            "Your sum compares the sizes of the gradient and of the input from the first dim on. "
            "Broadcasting aligns the last dims, so count from the last, or first sum over the "
            "leading dims that the input lacks.",
        )

    return check


def keeps_the_copied_dims(rule: str) -> Check:
    """Return a check that backward also sums over dims of size 1."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        x, y = inputs
        of_column_and_row = shapes_of(function, (3, 1), (1, 4))
        if x.ndim != y.ndim or (3, 4) not in of_column_and_row:
            return None
        return found(
            rule,
            "A dim of size 1 is not summed.",
            {},
            "For a column of the shape (3, 1) and a row of (1, 4), a gradient has the shape "
            "(3, 4). A dim of size 1 was copied, too. Sum over it, even if both inputs have "
            "equally many dims or elements.",
        )

    return check


def keeps_a_leading_dim(rule: str) -> Check:
    """Return a check that a leading dim disappears if the input does not have it."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        if shapes_of(function, (3, 5), (5,))[1] != (1, 5):
            return None
        return found(
            rule,
            "A leading dim of size 1 is left.",
            {},
            "For a 3×5 matrix and a vector of 5, the gradient of the vector has the shape (1, 5). "
            "The vector does not have this leading dim, so the sum must remove it, without "
            "keepdim.",
        )

    return check


def of_a_vector(function: type[Function]) -> tuple[Tensor, Tensor]:
    """Return a matrix and the gradient of a vector that the Function multiplied by the matrix."""
    x = torch.arange(15, dtype=torch.float64).reshape(3, 5).square() + 1
    gradient: Tensor = returned_by(function, (x, torch.ones(5, dtype=torch.float64)))[1]
    return x, gradient


def sums_before_it_multiplies(rule: str) -> Check:
    """Return a check that the sum comes after the product."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        x, gradient = of_a_vector(function)
        if gradient.shape != x.shape or not torch.allclose(gradient, 3 * x):
            return None
        return found(
            rule,
            "The sum comes before the product.",
            {},
            "For a 3×5 matrix and a vector, grad_output is summed before it is multiplied by the "
            "matrix. Each copy of the vector has its own factor. Multiply first, and then sum.",
        )

    return check


def does_not_add_up(rule: str, sentence: str, wrong: Callable[[Tensor], Tensor]) -> Check:
    """Return a check that the gradient of a vector is not ``wrong(x)``, where x is the matrix."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        x, gradient = of_a_vector(function)
        if gradient.shape != (5,) or not torch.allclose(gradient, wrong(x)):
            return None
        return found(rule, "The copies are not added up.", {}, sentence)

    return check


def takes_the_other_shape(rule: str) -> Check:
    """Return a check that no gradient has the shape of the other input."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        if shapes_of(function, (3, 5), (5,)) != ((5,), (3, 5)):
            return None
        return found(
            rule,
            "The shapes are exchanged.",
            {},
            "The gradient of x has the shape of y, and the other way around. Each gradient is "
            "summed to the shape of its own input.",
        )

    return check


EXERCISE = FunctionExercise(
    answer="BroadcastMultiply",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Broadcasting is a copy",
    constraints="backward itself returns the shapes of the inputs",
    reference=broadcast_multiply,
    samplers={
        "two of the same shape": lambda rng: (normal(rng, 2, 3), normal(rng, 2, 3)),
        "a 3×5 matrix and a vector": lambda rng: (normal(rng, 3, 5), normal(rng, 5)),
        "a column and a row": lambda rng: (normal(rng, 3, 1), normal(rng, 1, 4)),
        "a vector and a single row": lambda rng: (normal(rng, 3), normal(rng, 1, 3)),
        "a vector and three dims": lambda rng: (normal(rng, 4), normal(rng, 2, 3, 1)),
        "a column and three dims": lambda rng: (normal(rng, 3, 1), normal(rng, 2, 3, 4)),
        "a single number (0-dim)": lambda rng: (normal(rng), normal(rng, 2, 3)),
    },
    checks=CONDUCT,
    causes=(
        does_not_add_up(
            "constant-factor",
            "The vector is used once for each row, so its gradients add up. This takes their mean. "
            "Take their sum.",
            lambda x: x.mean(0),
        ),
        does_not_add_up(
            "batch-dimension",
            "The vector is used once for each row, so its gradients add up. This takes only that "
            "of the first row. Take their sum.",
            lambda x: x[0],
        ),
        *(
            cause(rule)
            for rule in (
                "gradient-shape",
                "unreduced-broadcast",
                "batch-dimension",
                "backward-raises",
            )
            for cause in (
                keeps_the_copied_dims,
                sums_over_everything,
                loses_dims_of_size_1,
                sums_over_the_last,
                sums_one_dim_only,
                takes_the_other_shape,
                aligns_the_first_dims,
                keeps_a_leading_dim,
                sums_before_it_multiplies,
            )
        ),
    ),
)
