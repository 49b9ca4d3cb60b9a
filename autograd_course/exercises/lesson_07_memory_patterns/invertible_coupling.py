"""A coupling that saves its outputs

1. Backward knows y1 and y2. In one of the two lines of forward, you know everything but one x, so
   you can solve this line for it. Which line?
2. x2 = y2 - tanh(y1 v). Now go backward through the lines of forward and start with the last one.
   Forward uses y1 twice, so add both parts of its gradient before you go on. Forward also uses x2
   twice.
3. b = tanh(y1 @ v); db = grad_y2 * (1 - b**2); add db @ v.t() to grad_y1. Then x2 = y2 - b, a =
   tanh(x2 @ w), da = (the new grad_y1) * (1 - a**2). The gradients are grad_y1, grad_y2 + da @
   w.t(), x2.t() @ da and y1.t() @ db. You do not need x1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_07_memory_patterns._saved import (
    bytes_of,
    keeps_no_intermediate,
)
from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, no_copy_on_ctx, on
from autograd_course.grader.checks.calling import applied, found, storage
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import Grads, mistaken


def coupling(x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``y1 = x1 + tanh(x2 w)`` and ``y2 = x2 + tanh(y1 v)``."""
    y1 = x1 + torch.tanh(x2 @ w)
    return y1, x2 + torch.tanh(y1 @ v)


def forgets_the_halves(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that forward saves neither ``x1`` nor ``x2``."""
    given, outputs = applied(function, inputs)
    halves = {storage(tensor): name for tensor, name in zip(given, ("x1", "x2"), strict=False)}
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is not None and storage(saved) in halves:
            name = halves[storage(saved)]
            return found(
                "oversaved",
                f"Saved tensor number {position} is the input `{name}`. This exercise allows only "
                "the outputs and the weights, so that a stack of couplings saves no activations.",
                {"position": position, "input": name},
                "Save the outputs, and solve the lines of forward for what backward needs. Start "
                "with the last line.",
            )
    return None


Slope = Callable[[Tensor, Tensor], Tensor]


def _one(tanh: Tensor, z: Tensor) -> Tensor:
    return torch.ones_like(tanh)


def _squares_missing(tanh: Tensor, z: Tensor) -> Tensor:
    return 1 - tanh


def _plus(tanh: Tensor, z: Tensor) -> Tensor:
    return 1 + tanh**2


def _of_the_input(tanh: Tensor, z: Tensor) -> Tensor:
    return 1 - z**2


def backward_with(
    *,
    x2: Callable[[Tensor, Tensor], Tensor] = lambda y2, b: y2 - b,
    for_w: str = "x2",
    through_y1: bool = True,
    returned: bool = True,
    through_x2: bool = True,
    direct: bool = True,
    for_v: str = "y1",
    slope_a: Slope = lambda a, z: 1 - a**2,
    slope_b: Slope = lambda b, z: 1 - b**2,
    first: str = "x2",
    given: bool = False,
) -> Callable[..., Any]:
    """Return a coupling whose backward is right except for the replaced or omitted steps.

    ``x2`` reconstructs the input from ``y2`` and the second tanh. ``for_w`` and ``for_v`` name the
    tensors in the gradients of the weights. ``through_y1`` and ``through_x2`` keep the paths
    through the two products, and ``direct`` keeps the path from y2 to x2. ``returned`` keeps the
    path through y1 in the gradient of x1. The slopes are those of tanh, as functions of its result
    and its input. ``first`` names the tensor in the first tanh. If ``given`` is true, backward uses
    the inputs in place of the outputs.
    """

    def backward(inputs: Any, grad_y1: Tensor, grad_y2: Tensor) -> Grads:
        _, _, w, v = inputs
        y1, y2 = inputs[:2] if given else coupling(*inputs)
        b = torch.tanh(y1 @ v)
        grad_b = grad_y2 * slope_b(b, y1 @ v)
        whole = grad_y1 + grad_b @ v.t()
        before = x2(y2, b)
        z = (y2 if first == "y2" else before) @ w
        a = torch.tanh(z)
        grad_a = whole if through_y1 else grad_y1
        grad_a = grad_a * slope_a(a, z)
        of_x2 = direct * grad_y2 + through_x2 * (grad_a @ w.t())
        of_w = (y2 if for_w == "y2" else before).t() @ grad_a
        of_v = (y1 if for_v == "y1" else y1 - a).t() @ grad_b
        return whole if returned and through_y1 else grad_y1, of_x2, of_w, of_v

    return mistaken(coupling, backward)


COUPLING_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "The second line uses x1. It must use y1, the result of the first line.": (
        lambda x1, x2, w, v: (x1 + torch.tanh(x2 @ w), x2 + torch.tanh(x1 @ v))
    ),
    "The first line does not add x1.": lambda x1, x2, w, v: (
        torch.tanh(x2 @ w),
        x2 + torch.tanh(torch.tanh(x2 @ w) @ v),
    ),
    "The second line does not add x2.": lambda x1, x2, w, v: (
        x1 + torch.tanh(x2 @ w),
        torch.tanh((x1 + torch.tanh(x2 @ w)) @ v),
    ),
}
COUPLING_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "backward uses y2 where it needs x2. First subtract tanh(y1 v) from y2.": (
        backward_with(x2=lambda y2, b: y2)
    ),
    "To reconstruct x2, you add tanh(y1 v) to y2. forward has added it, so subtract it.": (
        backward_with(x2=lambda y2, b: y2 + b)
    ),
    "The gradient of w contains y2. The product with w in forward is x2 @ w, so it needs x2.": (
        backward_with(for_w="y2")
    ),
    "The path from y2 through y1 is missing. The second line of forward uses y1, so its gradient "
    "must be added to grad_y1 before you go back through the first line.": (
        backward_with(through_y1=False)
    ),
    "You add the path from y2 through y1 for w and x2, but not for x1. The gradient of x1 is the "
    "whole gradient of y1.": backward_with(returned=False),
    "The path from y1 to x2 is missing. The first line of forward uses x2, so x2 gets grad_y2 and "
    "a second term through w.": backward_with(through_x2=False),
    "The direct path from y2 to x2 is missing. The second line of forward adds x2 itself, so add "
    "grad_y2.": backward_with(direct=False),
    "The gradient of v contains x1. The product with v in forward is y1 @ v, so it needs y1.": (
        backward_with(for_v="x1")
    ),
    "The derivative of the tanh in the first line is missing. It is 1 - tanh².": (
        backward_with(slope_a=_one)
    ),
    "The derivative of the tanh in the second line is missing. It is 1 - tanh².": (
        backward_with(slope_b=_one)
    ),
    "The derivative of both tanhs is missing. It is 1 - tanh².": (
        backward_with(slope_a=_one, slope_b=_one)
    ),
    **{
        f"The derivative of the tanh in the {line} line is {wrong}. It is 1 - tanh².": suspect
        for slope, wrong in (
            (_squares_missing, "1 - tanh here, without the square"),
            (_plus, "1 + tanh² here"),
            (_of_the_input, "1 - z² here, and z is the input of the tanh"),
        )
        for line, suspect in (
            ("first", backward_with(slope_a=slope)),
            ("second", backward_with(slope_b=slope)),
            ("first and the second", backward_with(slope_a=slope, slope_b=slope)),
        )
    },
    "backward recomputes the first tanh from y2. In forward, it is tanh(x2 w), so subtract tanh(y1 "
    "v) from y2 first.": backward_with(first="y2"),
    "backward uses x1 and x2 in the place of y1 and y2. Save the outputs.": (
        backward_with(given=True)
    ),
}

only_outputs = keeps_at_most(
    lambda x1, x2, w, v: bytes_of(x1, x2, w, v), "the two outputs and the two weights"
)

EXERCISE = FunctionExercise(
    answer="Coupling",
    points=3,
    difficulty="hard",
    minutes=25,
    section="Reconstruct the input",
    constraints="no activations but the outputs are saved",
    reference=coupling,
    samplers={
        "a batch of 5 rows": lambda rng: (
            *(normal(rng, 5, 3), normal(rng, 5, 2)),
            *(normal(rng, 2, 3), normal(rng, 3, 2)),
        ),
        "a single row": lambda rng: (
            *(normal(rng, 1, 4), normal(rng, 1, 4)),
            *(normal(rng, 4, 4), normal(rng, 4, 4)),
        ),
        "halves of width 1": lambda rng: (
            *(normal(rng, 6, 1), normal(rng, 6, 1)),
            *(normal(rng, 1, 1), normal(rng, 1, 1)),
        ),
    },
    suspects=COUPLING_SUSPECTS,
    gradient_suspects=COUPLING_GRADIENTS,
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        only_outputs,
        on(
            lambda rng: (
                normal(rng, *MANY),
                normal(rng, MANY[0], 2),
                normal(rng, 2, MANY[1]),
                normal(rng, MANY[1], 2),
            ),
            only_outputs,
        ),
        forgets_the_halves,
        keeps_no_intermediate,
    ),
)
