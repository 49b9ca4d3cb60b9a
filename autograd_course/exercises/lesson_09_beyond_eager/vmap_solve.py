"""A vmap rule for NumPy

1. The rule gets the whole tensors, and in_dims says for each where its batch lies. Where does the
   kernel expect it? What if there is none?
2. Bring the batch of each argument to the front: movedim(dim, 0) where it has one. Where in_dims is
   None all samples share the argument: expand it to info.batch_size. Then call Solve.apply on the
   result; the batch of what it returns is in front.
3. a = a.expand(info.batch_size, *a.shape) if in_dims[0] is None else a.movedim(in_dims[0], 0),
   likewise b; return Solve.apply(a, b), 0.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import one_call_for_the_batch
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a⁻¹ b`` for a vector ``b``, or for a batch of both."""
    y: Tensor = torch.linalg.solve(a, b[..., None])[..., 0]
    return y


def system(rng: torch.Generator, n: int, *batch: int) -> tuple[Tensor, Tensor]:
    """Return well-conditioned systems and a right-hand side for each."""
    return normal(rng, *batch, n, n) + 3 * n * torch.eye(n), normal(rng, *batch, n)


EXERCISE = FunctionExercise(
    answer="Solve",
    points=3,
    section="vmap, by hand",
    bounds="one call of the kernel solves the whole batch",
    reference=solve,
    samplers={
        "one system of 3": lambda rng: system(rng, 3),
        "one system of 1": lambda rng: system(rng, 1),
        "a batch of 2 systems": lambda rng: system(rng, 3, 2),
    },
    methods=("setup_context", "vmap"),
    checks=(one_call_for_the_batch,),
)
