"""A reversal that travels

1. detach is an operation of the graph, and backward is not. Write the result as a sum of two parts:
   one that autograd takes for a constant, and one that it differentiates.
2. The differentiated part is -strength · x, whose derivative is what you want. Its value you do not
   want: what must the constant part add to make the sum x?
3. With r = -strength * x: the result is r + (x - r).detach().
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autograd_course.exercises.lesson_15_ship_it._nets import LONGEST, batch, weighted
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.trials.exporting import EXAMPLE, Applied, exported
from autograd_course.grader.verdict import Verdict, wrong


def reverse(x: Tensor, strength: float) -> Tensor:
    """Return the values of ``x``; what becomes of its gradient is for the trial."""
    return x.clone()


def reverses_on_both_sides(reverse: Callable[[Tensor, float], Tensor]) -> Verdict | None:
    """Ask for the gradient of a reversal in eager, and behind an export."""
    for strength in (1.0, 0.3):
        net = _before(reverse, strength)
        if (came := _passed(net)) != -strength:
            return wrong(
                f"its values are right; but with strength {strength} the gradient in front of it "
                f"is {came:g} times the one behind it, should be {-strength:g} times, and nothing "
                "has been exported yet."
            )
        try:
            program = exported(net, batch(EXAMPLE))
        except RuntimeError as error:
            if "constant's list" not in str(error):
                raise
            return wrong(
                "in eager it is right; torch.export cannot record it, since some tensor did not "
                "come out of a recorded operation. .data does that; detach is an operation."
            )
        if (came := _passed(program)) != -strength:
            return wrong(
                f"in eager it is right; behind torch.export, with strength {strength}, the "
                f"gradient in front of it is {came:g} times the one behind it, should be "
                f"{-strength:g} times. What turns it around is not among the operations of the "
                "graph: no backward is, and no hook."
            )
    return None


def _before(reverse: Callable[[Tensor, float], Tensor], strength: float) -> nn.Module:
    """Return a layer with a reversal behind it."""
    return weighted(nn.Sequential(nn.Linear(4, 2), Applied(lambda x: reverse(x, strength))))


def _passed(net: nn.Module) -> float:
    """Return which multiple of g arrives at the bias of the first layer."""
    out = net(batch(EXAMPLE))
    bias = net.get_parameter("0.bias")
    if not out.requires_grad:
        return 0.0
    (gradient,) = torch.autograd.grad(out.sum(), bias, allow_unused=True)
    return 0.0 if gradient is None else round(float(gradient[0]) / EXAMPLE, 6)


EXERCISE = RoutineExercise(
    answer="reverse",
    points=2,
    difficulty="medium",
    minutes=8,
    section="Three ways to carry a gradient",
    constraints="the gradient is turned around in eager and behind torch.export alike",
    reference=reverse,
    samplers={
        "strength 1": lambda rng: (normal(rng, 3, 5), 1.0),
        "strength 0.3": lambda rng: (normal(rng, 2, 1, 3), 0.3),
        "a single number (0-dim)": lambda rng: (normal(rng), 0.5),
    },
    trials=(reverses_on_both_sides,),
    seconds=LONGEST,
)
