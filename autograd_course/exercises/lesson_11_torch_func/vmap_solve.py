"""A vmap rule for NumPy

1. The rule receives the whole tensors, and in_dims says where the batch of each tensor is. Where
   does the kernel expect the batch? What do you do with a tensor that has no batch?
2. Move the batch of each tensor to the front with movedim(dim, 0). If in_dims contains None for a
   tensor, all samples share this tensor, so expand it to info.batch_size samples. Then call
   Solve.apply. In its result, the batch is in front.
3. a = a.expand(info.batch_size, *a.shape) if in_dims[0] is None else a.movedim(in_dims[0], 0). Do
   the same for b, and return Solve.apply(a, b), 0.
"""

from typing import Any
from unittest.mock import patch

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_11_torch_func._rule_mistakes import rule_mistake
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import generator, normal


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a⁻¹ b`` for a matrix and a vector, or for a batch of each."""
    y: Tensor = torch.linalg.solve(a, b[..., None])[..., 0]
    return y


def system(rng: torch.Generator, n: int, *batch: int) -> tuple[Tensor, Tensor]:
    """Return well-conditioned matrices and a right-hand side for each matrix."""
    return normal(rng, *batch, n, n) + 3 * n * torch.eye(n), normal(rng, *batch, n)


SAMPLES = 40


def one_call_for_the_batch(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that under ``vmap``, forward runs only once for all samples."""
    sizes: list[int] = []
    forward = function.forward

    def counted(*args: Any) -> Any:
        sizes.append(args[1].numel())
        return forward(*args)

    rng = generator()
    stacked = [v + 0.1 * normal(rng, SAMPLES, *v.shape) for v in inputs]
    with patch.object(function, "forward", staticmethod(counted)):
        solutions: Any = torch.func.vmap(function.apply, (0, 0))(*stacked)
        of_the_batch, sizes = sizes, []
        torch.func.vmap(function.apply, (0, None))(stacked[0], inputs[1])
        of_shared, sizes = sizes, []
        torch.func.vmap(function.apply, (-1, -1))(*(v.movedim(0, -1) for v in stacked))
    if of_the_batch == [stacked[1].numel()] and max(len(of_shared), len(sizes)) <= 1:
        return _unsolved(solutions, *stacked)
    calls = max(map(len, (of_the_batch, of_shared, sizes)))
    if calls == 1:
        return found(
            "wrong-vmap",
            "The results are right, but the kernel does not solve the systems of all samples.",
            {"samples": SAMPLES, "calls": calls},
            "Pass the whole batch to the one call of `apply`.",
        )
    if calls == 0:
        return found(
            "wrong-vmap",
            "The results are right, but `forward` never runs under `vmap`. Your rule computes them "
            "itself, without the kernel.",
            {"samples": SAMPLES, "calls": 0},
            "The rule should only rearrange the batch and call `apply` once.",
        )
    return found(
        "wrong-vmap",
        f"The results are right, but for {SAMPLES} samples, `forward` runs {calls} times. `vmap` "
        "should avoid this loop.",
        {"samples": SAMPLES, "calls": calls},
        "The kernel accepts leading dims. Move the batch dim of every argument to the front and "
        "call `apply` once.",
    )


def _unsolved(solutions: Tensor, a: Tensor, b: Tensor) -> Finding | None:
    if solutions.shape == b.shape and torch.allclose((a @ solutions[..., None])[..., 0], b):
        return None
    return found(
        "wrong-vmap",
        f"For {SAMPLES} samples, the results of `vmap` do not solve the systems.",
        {"samples": SAMPLES},
        "Which step of your rule depends on the number of samples?",
    )


EXERCISE = FunctionExercise(
    answer="Solve",
    points=3,
    difficulty="medium",
    minutes=10,
    section="vmap, by hand",
    constraints="one call to the kernel solves the whole batch",
    reference=solve,
    samplers={
        "one system of 3": lambda rng: system(rng, 3),
        "one system of 1": lambda rng: system(rng, 1),
        "a batch of 2 systems": lambda rng: system(rng, 3, 2),
    },
    methods=("setup_context", "vmap"),
    checks=(one_call_for_the_batch,),
    causes=(rule_mistake,),
)
