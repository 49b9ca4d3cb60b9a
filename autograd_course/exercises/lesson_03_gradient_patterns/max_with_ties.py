"""Maximum with ties

1. Which elements of a slice does the maximum depend on? All others get the gradient 0. How many
   such elements are there if the largest number occurs several times?
2. Compare x with the maximum, with its dim kept. This gives a mask of all winners. If c of them
   tie, each gets 1/c of the gradient of the slice. Bring grad_output to the same shape.
3. Save x and y. In backward, unsqueeze(dim) restores the dim of y and g unless it was kept. winners
   = x == y. Return g · winners / winners.sum(dim, keepdim=True), and None twice.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT, ties_as
from autograd_course.grader.checks.calling import found
from autograd_course.grader.checks.simpler_inputs import raises_except_for
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by, returning


def amax(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the maximum along a dim. Equal maxima share the gradient equally."""
    return torch.amax(x, dim, keepdim)


SPREAD = 0.3  # much larger than any finite-difference step, so that ties stay ties


def tied(rng: torch.Generator, *shape: int) -> Tensor:
    """Return ``SPREAD`` times random integers from 0 to 3, so that long slices contain ties."""
    levels = torch.randint(4, shape, generator=rng, device="cpu")
    return SPREAD * levels.to(torch.float64)


def with_a_triple(rng: torch.Generator) -> tuple[Tensor, int]:
    """Return slices with ties. In the first slice, three elements tie."""
    x = tied(rng, 4, 6)
    x[0, :3], x[0, 3:] = 4 * SPREAD, 0.0
    return x, -1


def by_the_global_maximum(x: Tensor, dim: int, *keepdim_and_g: Any) -> Tensor:
    """Return a gradient that reaches only the maximum of the whole tensor."""
    *keepdim, g = keepdim_and_g
    kept = g if any(keepdim) else g.unsqueeze(dim)
    winners = x == x.max()
    share: Tensor = kept * winners / winners.sum(dim, keepdim=True)
    return share


def to_all(x: Tensor, dim: int, *keepdim_and_g: Any) -> Tensor:
    """Return a gradient in which every tied maximum gets the whole upstream gradient."""
    *keepdim, g = keepdim_and_g
    kept: Tensor = g if any(keepdim) else g.unsqueeze(dim)
    return kept * (x == amax(x, dim, True))


def by_the_length(x: Tensor, dim: int, *keepdim_and_g: Any) -> Tensor:
    """Return a gradient in which each winner in a slice of n elements gets 1/n of the gradient."""
    return to_all(x, dim, *keepdim_and_g) / x.shape[dim]


def by_all_winners(x: Tensor, dim: int, *keepdim_and_g: Any) -> Tensor:
    """Return a gradient that is divided by the number of winners in all slices together."""
    return to_all(x, dim, *keepdim_and_g) / (x == amax(x, dim, True)).sum()


def as_softmax(x: Tensor, dim: int, *keepdim_and_g: Any) -> Tensor:
    """Return a gradient distributed over all elements in proportion to their softmax."""
    *keepdim, g = keepdim_and_g
    kept: Tensor = g if any(keepdim) else g.unsqueeze(dim)
    return kept * x.softmax(dim)


def returns_a_pair(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if forward returns both the values and the indices."""
    output = function.forward(*inputs)
    if not isinstance(output, tuple):
        return None
    return found(
        "non-tensor-saved",
        "The output is a pair.",
        {},
        "`forward` returns a pair, as x.max(dim) does: the values and their indices. The exercise "
        "asks for the values alone, which amax returns.",
    )


needs_keepdim = raises_except_for(
    lambda x, dim, keepdim=False: None if keepdim else (x, dim, True),
    "The dim is missing.",
    "`backward` works with keepdim=True. Without it, the output and grad_output lack this dim. "
    "Both need it before they meet x.",
)


def has_a_second_dim(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if the gradient has an extra dim when keepdim is True."""
    if len(inputs) < 3 or not inputs[2]:
        return None
    if returned_by(function, inputs)[0].ndim != inputs[0].ndim + 1:
        return None
    return found(
        "unreduced-broadcast",
        "The gradient has one dim too many.",
        {},
        "With keepdim=True, the output and grad_output still have this dim. The code gives them a "
        "second one, for example with unsqueeze. Add the dim only if it was not kept.",
    )


EXERCISE = FunctionExercise(
    answer="MaxWithTies",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Max, and what ties do",
    constraints="equal maxima share the gradient equally",
    reference=amax,
    samplers={
        "a 3×5 matrix along the last dim": lambda rng: (normal(rng, 3, 5), -1),
        "ties, along the last dim": with_a_triple,
        "ties, along dim 0, kept": lambda rng: (tied(rng, 6, 3), 0, True),
        "three dims, along one of length 1": lambda rng: (normal(rng, 2, 1, 3), 1),
        "a slice of equal numbers": lambda rng: (torch.full_like(normal(rng, 4), 0.7), 0),
    },
    suspects={
        "`forward` ignores keepdim=True, so the result lacks this dim.": (
            lambda x, dim, keepdim=False: amax(x, dim)
        ),
        "The result keeps the dim, although keepdim is False.": (
            lambda x, dim, keepdim=False: amax(x, dim, True)
        ),
        "This is the maximum of the whole tensor. The exercise asks for one along dim.": (
            lambda x, dim, keepdim=False: x.max()
        ),
        "This is the maximum along the last dim. `forward` ignores dim.": (
            lambda x, dim, keepdim=False: amax(x, -1, keepdim)
        ),
        "This is the maximum along dim 0. `forward` ignores dim.": (
            lambda x, dim, keepdim=False: amax(x, 0, keepdim)
        ),
        "This is the index of the maximum. The exercise asks for its value.": (
            lambda x, dim, keepdim=False: x.argmax(dim, keepdim=keepdim).to(x)
        ),
        "This is the minimum.": lambda x, dim, keepdim=False: torch.amin(x, dim, keepdim),
    },
    gradient_suspects={
        "Each of the equal maxima gets the whole gradient. They must share it, so divide by their "
        "number.": returning(amax, to_all),
        "The winner gets 1/n of the gradient, where n is the length of the slice. Only winners "
        "share it, so divide by their number.": returning(amax, by_the_length),
        "The gradient is divided by the number of winners in all slices together. Each slice needs "
        "its own number: sum over dim, and keep it.": returning(amax, by_all_winners),
        "This spreads the gradient over all elements by their softmax. Only the maximum gets it. "
        "The softmax is the gradient of logsumexp.": returning(amax, as_softmax),
        "`backward` compares x with the maximum of the whole tensor. A slice without this maximum "
        "has no winner, and 0/0 is nan. Compare each slice with its own maximum.": returning(
            amax, by_the_global_maximum
        ),
    },
    causes=(has_a_second_dim, returns_a_pair, needs_keepdim),
    checks=(
        *CONDUCT,
        ties_as(amax, torch.tensor([3.0, 1.0, 3.0, 3.0, 2.0], dtype=torch.float64), 0),
        ties_as(
            amax,
            torch.tensor([3.0, 2.99999999, 1.0], dtype=torch.float64),
            0,
            beside="Elements that are only close to each other do not tie.",
        ),
    ),
)
