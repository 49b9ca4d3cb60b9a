"""Forward mode for a smooth maximum

1. Change x by its tangent and t by its tangent. By how much does y change? Of the two methods,
   backward and jvp, one sums over a row, and the other spreads a number over a row. Which one is
   jvp?
2. jvp multiplies by the same matrix as backward, but from the other side. backward spreads one
   number g over a row, as in p * g[..., None]. jvp sums p * x_tangent over a row, and adds the
   contribution of t. jvp also needs saved tensors. They must be the same as for backward, in the
   same order.
3. In setup_context, pass the same three tensors to ctx.save_for_backward and ctx.save_for_forward.
   In jvp, return (p * x_tangent).sum(-1) plus t_tangent * (y - (p * x).sum(-1)) / t.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function, forward_ad

from autograd_course.calls import is_float
from autograd_course.exercises.lesson_11_torch_func._tangent_mistakes import (
    saved_in_another_order,
    tangent_mistake,
)
from autograd_course.grader.checks import no_tensor_on_ctx
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def smooth_maximum(x: Tensor, temperature: Tensor) -> Tensor:
    """Return ``t log Σ exp(x/t)`` over the last dim."""
    return temperature * torch.logsumexp(x / temperature, -1)


def heated(rng: torch.Generator, temperature: float, *shape: int) -> tuple[Tensor, Tensor]:
    """Return input rows and a temperature."""
    return normal(rng, *shape), torch.tensor(temperature, dtype=torch.float64)


def jvp_takes_each_tangent(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that ``jvp`` takes a tangent of each input alone.

    The doctor lets a ``jvp`` raise NotImplementedError, but this exercise asks for forward mode.
    """
    for i, name in enumerate(("x", "temperature")):
        values = list(inputs)
        try:
            with forward_ad.dual_level():
                values[i] = forward_ad.make_dual(inputs[i], torch.ones_like(inputs[i]))
                function.apply(*values)
        except NotImplementedError as error:
            return found(
                "wrong-jvp",
                f"for a tangent of `{name}` alone, `jvp` raises NotImplementedError: {error}",
                {"error": "NotImplementedError"},
                "This exercise asks for forward mode. Return a tangent of the output in each case.",
            )
    return None


def jvp_takes_a_batch(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that ``jvp`` runs under ``vmap``, which ``jacfwd`` and ``hessian`` require."""
    wanted = tuple(i for i, value in enumerate(inputs) if is_float(value))
    try:
        torch.func.jacfwd(function.apply, wanted)(*inputs)
    except Exception as error:
        return found(
            "wrong-jvp",
            f"Forward mode is right, but `jvp` fails under `vmap`, which `jacfwd` and `hessian` "
            f"use. It raises {type(error).__name__}: {str(error).partition('. ')[0]}",
            {"error": type(error).__name__},
            "Under `vmap`, one tangent represents a whole batch of directions. Do not call "
            "`.item()` or `float()` on it, and do not branch on its values.",
        )
    return None


EXERCISE = FunctionExercise(
    answer="SmoothMaximum",
    points=3,
    difficulty="medium",
    minutes=10,
    section="Forward mode",
    constraints="its Hessian, computed forward over reverse, is right",
    reference=smooth_maximum,
    samplers={
        "a 3×5 matrix": lambda rng: heated(rng, 0.7, 3, 5),
        "a vector": lambda rng: heated(rng, 2.0, 4),
        "three dims, one of length 1": lambda rng: heated(rng, 0.3, 2, 1, 3),
    },
    methods=("setup_context", "jvp"),
    double_backward=True,
    checks=(no_tensor_on_ctx, jvp_takes_each_tangent, jvp_takes_a_batch),
    causes=(tangent_mistake, saved_in_another_order),
)
