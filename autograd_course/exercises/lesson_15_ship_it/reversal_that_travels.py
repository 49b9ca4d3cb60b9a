"""A reversal that travels

1. detach is an operation of the graph, but backward is not. Write the result as a sum of two parts:
   a part that autograd treats as a constant, and a part that it differentiates.
2. The second part is -strength · x, because it has the right derivative. But it has the wrong
   value. What must the constant part be so that the sum is x?
3. Let r = -strength * x. The result is r + (x - r).detach().
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from autograd_course.exercises.lesson_15_ship_it._nets import LONGEST, batch, weighted
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.exporting import EXAMPLE, Applied, exported
from autograd_course.grader.trials.measured import far_result
from autograd_course.grader.verdict import Verdict, wrong


def reverse(x: Tensor, strength: float) -> Tensor:
    """Return a copy of ``x``. The trial checks the gradient."""
    return x.clone()


SUSPECTS: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "The result is -strength · x, but it must be x. Add a part that autograd treats as a constant, "
    "so that the sum is x.": lambda x, strength: -strength * x,
    "The result is 2 x - strength · x. The two parts must add up to x.": (
        lambda x, strength: 2 * x - strength * x
    ),
    "The result is strength · x. The value must stay x.": lambda x, strength: strength * x,
    "The result is x - strength · x. The part that autograd treats as a constant must make "
    "up for what the other part subtracts.": lambda x, strength: x - strength * x,
    "The result is x + strength · x. The two parts must add up to x.": (
        lambda x, strength: x + strength * x
    ),
}


def _explained(came: float, strength: float) -> str:
    """Return an explanation of a wrong gradient factor, or an empty string."""
    if came == 0:
        return (
            " No part of the result carries a gradient, or the parts that carry one cancel. A part "
            "-strength · x must carry it."
        )
    if came == strength:
        return " The minus sign is missing."
    if came == 1:
        return " The gradient passes unchanged. Only a part -strength · x may carry it."
    if came == round(1 - strength, 6):
        return (
            " One part carries -strength times grad_output, and another part carries grad_output "
            "itself."
        )
    if came == -1:
        return " The factor strength is missing."
    return ""


def reverses_on_both_sides(reverse: Callable[[Tensor, float], Tensor]) -> Verdict | None:
    """Check that the gradient is reversed in eager mode and after export."""
    for strength in (0.3, 1.0):
        net = _before(reverse, strength)
        x = batch(EXAMPLE)
        if verdict := far_result(net(x), net.get_submodule("0")(x), f"with strength {strength}"):
            return verdict
        if (came := _passed(net, -strength)) != -strength:
            return wrong(
                f"the values are right, but with strength {strength} the gradient of x is {came:g} "
                f"times grad_output, should be {-strength:g} times, and this is still eager mode."
                f"{_explained(came, strength)}"
            )
        try:
            program = exported(net, batch(EXAMPLE))
        except RuntimeError as error:
            if "constant's list" not in str(error):
                raise
            return wrong(
                "the gradient is right in eager mode, but torch.export cannot record your code, "
                "because a tensor does not come from a recorded operation. The attribute .data "
                "causes this. detach is an operation, so use it instead."
            )
        if (came := _passed(program, -strength)) != -strength:
            return wrong(
                f"the gradient is right in eager mode, but after torch.export with strength "
                f"{strength} the gradient of x is {came:g} times grad_output, should be "
                f"{-strength:g} times. Export records only the operations of forward, and neither "
                "a backward nor a hook is an operation."
            )
    return None


def _before(reverse: Callable[[Tensor, float], Tensor], strength: float) -> nn.Module:
    """Return a net with a linear layer followed by a gradient reversal."""
    return weighted(nn.Sequential(nn.Linear(4, 2), Applied(lambda x: reverse(x, strength))))


def _passed(net: nn.Module, expected: float) -> float:
    """Return the factor by which ``grad_output`` is multiplied before it reaches the bias.

    If the factors of the bias's elements differ, return the one farthest from ``expected``.
    """
    out = net(batch(EXAMPLE))
    bias = net.get_parameter("0.bias")
    if not out.requires_grad:
        return 0.0
    grad_output = 1 + torch.rand(out.shape, generator=generator()).to(out)
    (gradient,) = torch.autograd.grad(out, bias, grad_output, allow_unused=True)
    if gradient is None:
        return 0.0
    factors = gradient / grad_output.sum(0)
    return round(float(factors[(factors - expected).abs().argmax()]), 6)


EXERCISE = RoutineExercise(
    answer="reverse",
    points=2,
    difficulty="medium",
    minutes=8,
    section="Three ways to carry a gradient",
    constraints="the gradient is reversed in eager mode and in the exported program",
    reference=reverse,
    samplers={
        "strength 0.3": lambda rng: (normal(rng, 2, 1, 3), 0.3),
        "strength 1": lambda rng: (normal(rng, 3, 5), 1.0),
        "a single number (0-dim)": lambda rng: (normal(rng), 0.5),
    },
    suspects=SUSPECTS,
    trials=(reverses_on_both_sides,),
    seconds=LONGEST,
)
