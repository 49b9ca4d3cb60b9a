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
from autograd_doctor.memory import DispatchMode, operation_name
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks

from autograd_course.functions.equilibrium import settled
from autograd_course.grader.checks import keeps_at_most, no_tensor_on_ctx
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import Grads, mistaken


def equilibrium(x: Tensor, W: Tensor) -> Tensor:
    """Return the fixed point of ``z = tanh(z Wᵀ + x)``.

    The solution from ``settled`` has no graph, so this function adds two Newton steps, which do not
    change the value. With these two steps, autograd can differentiate the result up to three times.
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
    """Return a weight so small that a fixed point exists even for four times the weight."""
    weight = normal(rng, n, n)
    return 0.1 * weight / weight.abs().sum(1, keepdim=True)


def linearized(
    system: Callable[[Tensor, Tensor], Tensor], outside: bool = False
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the correct fixed point, with the derivative from a different linear system.

    ``system`` computes a matrix from the slopes of the tanh (as columns) and ``W``. The correct
    matrix is ``I - slopes * W``. If ``outside`` is true, the derivative does not multiply the
    changes of x and W by the slopes, which is another mistake.
    """

    def solved(x: Tensor, W: Tensor) -> Tensor:
        z = settled(x.detach(), W.detach())
        slope = 1 - z.square()
        change = (1 if outside else slope) * (x - x.detach() + z @ (W - W.detach()).t())
        matrix = system(slope[:, :, None], W.detach()).expand(len(z), *W.shape)
        moved: Tensor = z + torch.linalg.solve(matrix, change[:, :, None])[:, :, 0]
        return moved

    return solved


def by_hand(
    slope: Callable[[Tensor], Tensor] = lambda z: 1 - z.square(),
    *,
    sign: int = 1,
    rounds: int = 0,
    turned: bool = False,
    with_x: bool = False,
    mean: bool = False,
    slope_after: bool = False,
    of_x_outside: bool = False,
) -> Callable[..., Any]:
    """Return the fixed point with a backward formula that contains a mistake.

    ``slope`` replaces the derivative of the tanh. ``sign`` is the sign of the product with W.
    ``rounds`` limits the solver's iterations. For the gradient of W, ``turned`` transposes it,
    ``with_x`` computes it from x, and ``mean`` divides it by the number of rows. With
    ``slope_after``, the slope multiplies the product with W. With ``of_x_outside``, x gets the
    gradient of the tanh's output.
    """

    def backward(inputs: Any, g: Tensor) -> Grads:
        x, W = inputs
        z = settled(x, W)
        s = slope(z)
        u = g
        for _ in range(rounds or 200):
            u = g + sign * ((u @ W) * s if slope_after else (u * s) @ W)
        v = u * s
        of_W = v.t() @ (x if with_x else z) / (len(x) if mean else 1)
        return u if of_x_outside else v, of_W.t() if turned else of_W

    return mistaken(equilibrium, backward)


def _input_after_tanh(x: Tensor, W: Tensor) -> Tensor:
    z = torch.zeros_like(x)
    for _ in range(200):
        z = torch.tanh(z @ W.t()) + x
    return z


def _slope_of_the_last_round(inputs: Any, g: Tensor) -> Grads:
    x, W = inputs
    z = settled(x, W)
    v = last = (1 - z.square()) * g
    for _ in range(200):
        v = last + v @ W
    return v, v.t() @ z


A_ROUND = (
    8  # in each round, PyTorch saves fewer tensors than this for the product, the sum and the tanh
)
NEAR = 1e-6  # the solver's first rounds differ from the solution by more than this
MOST_ROUNDS = 2  # so many tanh operations may have other results


def records_one_round(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that backward records at most one iteration and does not rerun the solver."""
    if (rounds := _rounds(function, inputs)) > MOST_ROUNDS:
        return found(
            "oversaved",
            f"backward runs the solver again. {rounds} of its calls of tanh return numbers that "
            "are not in the solution.",
            {"rounds": rounds},
            STARTS,
        )
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
    if len(kept) <= A_ROUND:
        return None
    return found(
        "oversaved",
        f"backward records more than one round. Autograd saves {len(kept)} tensors for this, but "
        f"this exercise allows only {A_ROUND}, which is enough for one round.",
        {"tensors": len(kept)},
        STARTS,
    )


STARTS = (
    "Start at the saved solution. One round from there, recorded or written as a formula, gives "
    "you the linear system."
)


def _rounds(function: type[Function], inputs: tuple[Any, ...]) -> int:
    """Count the iterations that backward runs before it arrives at the solution."""
    _, outputs = applied(function, inputs)
    with Rounds(outputs[0].detach()) as rounds:
        backward(outputs)
    return rounds.count


class Rounds(DispatchMode):
    """In a ``with`` block, count the tanh operations whose results are not in the solution.

    A right backward can compute the layer at the solution many times, also by rows or transposed.
    """

    def __init__(self, solution: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.solution, self.count = solution.flatten(), 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. If it is a tanh, look for its results in the solution."""
        result = func(*args, **(kwargs or {}))
        if operation_name(func) in ("tanh", "tanh_"):
            apart = (result.flatten()[:, None] - self.solution).abs().amin(1)
            self.count += bool((apart > NEAR).any())
        return result


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
    suspects={
        "forward multiplies by W where the formula has Wᵀ.": lambda x, W: settled(x, W.t()),
        "This is only the result of the first round. Repeat the round until z no longer changes.": (
            lambda x, W: torch.tanh(x)
        ),
        "x is added after the tanh. In the formula, it is added to z Wᵀ inside the tanh.": (
            _input_after_tanh
        ),
    },
    gradient_suspects={
        "The derivative of the tanh is 1 - z². z is already the tanh, so do not apply it again.": (
            by_hand(lambda z: 1 - torch.tanh(z).square())
        ),
        "z · (1 - z) is the derivative of a sigmoid. The derivative of a tanh is 1 - z².": (
            by_hand(lambda z: z * (1 - z))
        ),
        "The derivative of the tanh is 1 - z², not 1 - z.": by_hand(lambda z: 1 - z),
        "The product with W is subtracted in the linear system. u is grad_output plus what comes "
        "back through one round.": by_hand(sign=-1),
        "backward goes back only through two rounds. Repeat the equation for u until u no longer "
        "changes.": by_hand(rounds=1),
        "The slope of the tanh multiplies the product with W. Going backward, the tanh comes "
        "first: multiply by the slope, and then by W.": by_hand(slope_after=True),
        "The slope of the tanh multiplies only grad_output. What comes back through W passes the "
        "tanh as well, so it needs the slope too.": mistaken(equilibrium, _slope_of_the_last_round),
        "The gradient of W is transposed. Row i of W makes element i of z, so the gradient is "
        "vᵀ z.": by_hand(turned=True),
        "The gradient of W contains x. In forward, W is multiplied by z.": by_hand(with_x=True),
        "The gradient of W is the mean over the rows. All rows use the same W, so add.": (
            by_hand(mean=True)
        ),
        "The gradient of x is that of the output of the tanh. But x is inside the tanh, so "
        "multiply by the slope.": by_hand(of_x_outside=True),
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
