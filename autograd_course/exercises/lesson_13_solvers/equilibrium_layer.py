"""A fixed-point layer

1. forward is one call of settled. For backward, forget how z was found and look at the equation
   that it solves. What does a gradient u at z become when it goes back through one round, z =
   tanh(z Wᵀ + x), to the z on the right-hand side?
2. It becomes (u * (1 - z²)) @ W. So u = g + (u * (1 - z²)) @ W, a fixed point again: settled finds
   it. Then one more step back, this time to x and to W.
3. s = 1 - z**2; u = settled(lambda u: grad_output + (u * s) @ W, grad_output); v = u * s. Return v
   for x and v.t() @ z for W. forward saves W and z.
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.extension import OperationRecorder
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks

from autograd_course.functions.equilibrium import settled
from autograd_course.grader.checks import keeps_at_most, no_tensor_on_ctx
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def equilibrium(x: Tensor, W: Tensor) -> Tensor:
    """Return the fixed point of ``z = tanh(z Wᵀ + x)``.

    What ``settled`` returns has no graph. Two of Newton's steps from it do not change its value,
    and carry its derivatives up to the third.
    """
    z: Tensor = settled(x.detach(), W.detach())
    for _ in range(2):
        once = torch.tanh(z @ W.t() + x)
        system = _identity(z) - (1 - once.square())[:, :, None] * W
        z = z - torch.linalg.solve(system, (z - once)[:, :, None])[:, :, 0]
    return z


def _identity(z: Tensor) -> Tensor:
    return torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)


def weak(rng: torch.Generator, n: int) -> Tensor:
    """Return a weight whose rows are so small that four times as much still has a fixed point."""
    weight = normal(rng, n, n)
    return 0.1 * weight / weight.abs().sum(1, keepdim=True)


def linearized(
    system: Callable[[Tensor, Tensor], Tensor], outside: bool = False
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the fixed point, with the derivative that comes of solving another linear system.

    ``system`` takes the slopes of the tanh, as columns, and ``W``. Right is ``I - slopes * W``.
    ``outside``: as if x and W stood outside of the tanh.
    """

    def solved(x: Tensor, W: Tensor) -> Tensor:
        z = settled(x.detach(), W.detach())
        slope = 1 - z.square()
        change = (1 if outside else slope) * (x - x.detach() + z @ (W - W.detach()).t())
        matrix = system(slope[:, :, None], W.detach()).expand(len(z), *W.shape)
        moved: Tensor = z + torch.linalg.solve(matrix, change[:, :, None])[:, :, 0]
        return moved

    return solved


A_ROUND = 8  # tensors that PyTorch keeps for one round, generously: its product, tanh and sum


def records_one_round(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that backward does not run the solver again under autograd: one call of it will do."""
    _, outputs = applied(function, inputs)
    kept: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    try:
        with saved_tensors_hooks(note, lambda tensor: tensor):
            backward(outputs)
    except RuntimeError as error:  # torch.func differentiates too, and refuses hooks
        if "saved tensor hooks" not in str(error):
            raise
        kept = _rounds(function, inputs) * [*outputs]
    if len(kept) <= A_ROUND:
        return None
    return found(
        "oversaved",
        f"backward runs the solver again and records it: {len(kept)} tensors are kept on the way, "
        f"and this exercise allows one round, {A_ROUND} at most. What forward saved, backward "
        "spends.",
        {"tensors": len(kept)},
        "The solution is saved. One round from there, recorded or written down as a formula, says "
        "all about the linear system.",
    )


def _rounds(function: type[Function], inputs: tuple[Any, ...]) -> int:
    """Count the tanhs of backward: one for each round that it runs, each of which keeps its own."""
    _, outputs = applied(function, inputs)
    recording = OperationRecorder()
    with recording:
        backward(outputs)
    return recording.names.count("tanh")


EXERCISE = FunctionExercise(
    answer="Equilibrium",
    points=4,
    difficulty="hard",
    minutes=20,
    section="A fixed-point layer",
    constraints="no round of the solver is kept",
    reference=equilibrium,
    samplers={
        "4 rows of 2": lambda rng: (normal(rng, 4, 2), weak(rng, 2)),
        "a single row": lambda rng: (normal(rng, 1, 3), weak(rng, 3)),
        "one unit": lambda rng: (normal(rng, 3, 1), weak(rng, 1)),
    },
    gradient_suspects={
        "This is the gradient of the last round alone: it takes z on the right-hand side for a "
        "constant. But that z depends on x and W too, and this is what the linear system is for.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype))
        ),
        "The linear system has W where it should have Wᵀ, or the other way round. With rows, "
        "forward computes z @ W.t(); how does a gradient go back through that product?": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - slope * W.t())
        ),
        "In the linear system the slope of the tanh is missing. One round is a product and then a "
        "tanh, so each time u goes back through it, it goes back through both.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - W)
        ),
        "The linear system is right, and u is the gradient at the output of the tanh. x and W "
        "stand inside of it: one slope is missing at the end.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - slope * W, outside=True)
        ),
    },
    checks=(
        no_tensor_on_ctx,
        keeps_at_most(
            lambda x, W: 2 * x.nbytes + W.nbytes, "x, W and the solution, but none of the rounds"
        ),
        records_one_round,
    ),
    seconds=20.0,  # the solver runs some hundred times
)
