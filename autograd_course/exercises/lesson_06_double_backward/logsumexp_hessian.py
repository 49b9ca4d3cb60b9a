"""Log-sum-exp with its Hessian

1. The gradient is the softmax. If forward computes the softmax, it is an intermediate, and the
   Hessian is zero. From which saved tensors can backward compute the softmax?
2. Backward can compute it from the saved input alone, or from the input and the output together:
   the output is the logarithm of the denominator of the softmax. Only the tensor that forward
   returns has a graph. If forward saves this tensor with another shape, the saved tensor has no
   graph.
3. forward returns torch.logsumexp(x, -1). In setup_context, save x and the output y. The softmax is
   exp(x - y.unsqueeze(-1)). Multiply it by grad_output.unsqueeze(-1), because grad_output has no
   last dimension.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found, node
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def logsumexp(x: Tensor) -> Tensor:
    """Return ``log Σ exp x`` over the last dimension."""
    return torch.logsumexp(x, -1)


def saves_y_in_another_shape(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if a saved tensor has the values of the output in another shape."""
    _, (y, *_) = applied(function, inputs)
    for saved in getattr(node([y]), "saved_tensors", ()):
        if saved is None or saved.shape == y.shape or saved.numel() != y.numel():
            continue
        if torch.equal(saved.detach().flatten(), y.detach().flatten()):
            return found(
                "silent-double-backward",
                "The output is saved in another shape.",
                {"shape": tuple(saved.shape)},
                f"A saved tensor has the values of y in the shape {tuple(saved.shape)}. It is an "
                "intermediate, which has no graph. Save y itself, and change its shape in "
                "`backward`.",
            )
    return None


EXERCISE = FunctionExercise(
    answer="LogSumExp",
    points=3,
    difficulty="medium",
    minutes=10,
    section="The Hessian",
    reference=logsumexp,
    samplers={
        "a 3×5 matrix": lambda rng: (normal(rng, 3, 5),),
        "a vector": lambda rng: (normal(rng, 5),),
        "three dimensions, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
        "a last dimension of length 1": lambda rng: (normal(rng, 4, 1),),
    },
    double_backward=True,
    causes=(saves_y_in_another_shape,),
    checks=CONDUCT,
)
