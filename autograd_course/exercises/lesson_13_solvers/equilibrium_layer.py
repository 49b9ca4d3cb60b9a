"""A fixed-point layer

1. forward calls settled once. For backward, it does not matter how settled found z. Look at the
   equation z = tanh(z Wᵀ + x). If u is the gradient of the z on the left, what gradient does the z
   on the right get?
2. It gets (u * (1 - z²)) @ W. So u solves u = g + (u * (1 - z²)) @ W. This is again a fixed-point
   equation, so settled can solve it. Then take one more step back from u, to x and to W.
3. s = 1 - z**2; u = settled(lambda u: grad_output + (u * s) @ W, grad_output); v = u * s. Return v
   for x and v.t() @ z for W. setup_context saves W and the output.
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

    The solution from ``settled`` has no graph. So this adds two Newton steps, which do not change
    the value. With these two steps, autograd can differentiate the result up to three times.
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
    """Return a weight so small that a fixed point exists even for four times this weight."""
    weight = normal(rng, n, n)
    return 0.1 * weight / weight.abs().sum(1, keepdim=True)


def linearized(
    system: Callable[[Tensor, Tensor], Tensor], outside: bool = False
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the correct fixed point, with the derivative from a different linear system.

    ``system`` computes a matrix from the slopes of the tanh (as columns) and ``W``. The correct
    matrix is ``I - slopes * W``. If ``outside`` is true, the derivative is incorrect in another
    way: it does not multiply the changes of x and W by the slopes.
    """

    def solved(x: Tensor, W: Tensor) -> Tensor:
        z = settled(x.detach(), W.detach())
        slope = 1 - z.square()
        change = (1 if outside else slope) * (x - x.detach() + z @ (W - W.detach()).t())
        matrix = system(slope[:, :, None], W.detach()).expand(len(z), *W.shape)
        moved: Tensor = z + torch.linalg.solve(matrix, change[:, :, None])[:, :, 0]
        return moved

    return solved


A_ROUND = (
    8  # PyTorch saves fewer tensors than this for the product, the sum and the tanh of a round
)


def records_one_round(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that backward records at most one iteration and does not rerun the solver."""
    _, outputs = applied(function, inputs)
    kept: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    try:
        with saved_tensors_hooks(note, lambda tensor: tensor):
            backward(outputs)
    except RuntimeError as error:  # raised by torch.func, which does not support hooks
        if "saved tensor hooks" not in str(error):
            raise
        kept = _rounds(function, inputs) * [*outputs]
    if len(kept) <= A_ROUND:
        return None
    return found(
        "oversaved",
        f"backward runs the solver again and records it. Autograd saves {len(kept)} tensors for "
        f"this, but this exercise allows only {A_ROUND}, which is enough for one round.",
        {"tensors": len(kept)},
        "Start at the saved solution. One round from there, recorded or written as a formula, "
        "gives you the linear system.",
    )


def _rounds(function: type[Function], inputs: tuple[Any, ...]) -> int:
    """Count the iterations that backward runs. Each iteration computes one tanh."""
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
    constraints="no round of the solver is saved",
    reference=equilibrium,
    samplers={
        "4 rows of 2": lambda rng: (normal(rng, 4, 2), weak(rng, 2)),
        "a single row": lambda rng: (normal(rng, 1, 3), weak(rng, 3)),
        "one unit": lambda rng: (normal(rng, 3, 1), weak(rng, 1)),
    },
    gradient_suspects={
        "This is only the gradient of the last round. It treats the z on the right-hand side as a "
        "constant. But this z also depends on x and W, so backward must solve the linear system.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype))
        ),
        "The linear system has W where it should have Wᵀ, or the other way round. forward computes "
        "z @ W.t() for each row. What does the backward of this product compute?": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - slope * W.t())
        ),
        "The slope of the tanh is missing in the linear system. A round computes a product and "
        "then a tanh, so u must go back through both.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - W)
        ),
        "The linear system is right, and u is the gradient of the output of the tanh. But x and W "
        "are inside the tanh, so one slope is missing at the end.": (
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
    seconds=20.0,  # the solver runs about a hundred times
)
