"""Sort, with the indices

1. Sorting moves numbers and does not change them. Which element of x gets the gradient of the
   largest value? And can an index have a gradient?
2. values[i] = x[indices[i]], so each gradient goes back to the place that its index names. This is
   the opposite of gathering. backward also receives a gradient for the indices and ignores it.
3. Save the indices. In backward, return torch.zeros_like(grad_values).scatter(-1, indices,
   grad_values), and None for descending. Integer outputs need no mark, but
   ctx.mark_non_differentiable(indices) in setup_context shows your readers what you mean.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, on
from autograd_course.grader.checks.calling import applied, found, node
from autograd_course.grader.checks.simpler_inputs import raises_except_for
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def sort_with_indices(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the values sorted along the last dimension, and their original indices."""
    values, indices = torch.sort(x, dim=-1, descending=descending)
    return values, indices


def saves_no_values(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that forward saves the indices, not the values, which can have the same size."""
    _, outputs = applied(function, inputs)
    for position, saved in enumerate(getattr(node(outputs), "saved_tensors", ())):
        if saved is not None and saved.is_floating_point():
            return found(
                "oversaved",
                f"Saved tensor number {position} holds values ({str(saved.dtype)[6:]}). This "
                "exercise allows only the indices.",
                {"position": position},
                "Where did each value go? `forward` knows this already, so `backward` need not "
                "sort again.",
            )
    return None


def marks_the_values(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if the values, which are the first output, do not require grad."""
    _, outputs = applied(function, inputs)
    if outputs[0].requires_grad:
        return None
    return found(
        "backward-never-called",
        "The values are marked as non-differentiable.",
        {},
        "The values are marked as non-differentiable, so no gradient can flow through them. Only "
        "the indices get this mark.",
    )


indexes_dim_0 = raises_except_for(
    lambda x, descending=False: (x.new_tensor([2.0, 3.0, 1.0]),) if x.ndim > 1 else None,
    "The indices count along the last dim.",
    "`backward` works for a vector, but not for a matrix. The indices count along the last dim. An "
    "index in brackets, as in grad[indices], takes or sets whole rows of dim 0.",
)


def flips_only_the_values(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the right values, but with the indices for ascending order."""
    return sort_with_indices(x, descending)[0], sort_with_indices(x)[1]


def negated(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the right indices, but negate the values for descending order."""
    values, indices = sort_with_indices(x, descending)
    return -values if descending else values, indices


def ranks(x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return the right values, and the rank of each element instead of the indices."""
    values, indices = sort_with_indices(x, descending)
    return values, indices.argsort(-1)


only_indices = keeps_at_most(
    lambda x, descending=False: 8 * x.numel(), "the indices, 8 bytes for each element"
)

EXERCISE = FunctionExercise(
    answer="SortWithIndices",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Outputs without a gradient",
    constraints="nothing but the indices is saved",
    reference=sort_with_indices,
    samplers={
        "a 3×5 matrix": lambda rng: (normal(rng, 3, 5),),
        "a vector": lambda rng: (normal(rng, 6),),
        "descending": lambda rng: (normal(rng, 2, 4), True),
        "three dimensions, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
    },
    suspects={
        "The values are in ascending order. `forward` ignores `descending`.": (
            lambda x, descending=False: sort_with_indices(x)
        ),
        "The values are sorted along dim 0. This exercise sorts along the last dim.": (
            lambda x, descending=False: tuple(torch.sort(x, dim=0, descending=descending))
        ),
        "Output 1 says to which place each element of x goes. This exercise asks for the place "
        "that each value comes from.": ranks,
        "The values are in descending order, but the indices belong to the ascending order. Both "
        "outputs must have the same order.": flips_only_the_values,
        "For descending=True, the values have the wrong sign. They are those of -x.": negated,
    },
    gradient_suspects={
        "`backward` sorts the gradients by their size. The order of x decides where each of them "
        "goes, and the indices say so.": returning(
            sort_with_indices, lambda *given: torch.sort(given[-2], dim=-1)[0]
        ),
    },
    causes=(marks_the_values, indexes_dim_0),
    checks=(
        *CONDUCT,
        only_indices,
        on(lambda rng: (normal(rng, *MANY),), only_indices),
        saves_no_values,
    ),
)
