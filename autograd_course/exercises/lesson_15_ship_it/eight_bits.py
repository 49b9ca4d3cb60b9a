"""Eight bits that train

1. Compute one scale for each row: which dim do you reduce, and how do you keep it for the division?
   Then compute the rounded weight. How did the lesson return the value of one tensor with the
   gradient of another?
2. The scale is the largest magnitude of the row divided by 127.5, but at least eps. Divide, round,
   clamp, and multiply by the scale. The result must have this value, but it must pass its gradient
   to the weight unchanged.
3. s = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype).eps), then
   rounded = s * (weight / s).round().clamp(-128, 127), then (rounded - weight).detach() + weight.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autograd_course.exercises.lesson_15_ship_it._nets import LONGEST
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.exporting import EXAMPLE, exported
from autograd_course.grader.verdict import Verdict, wrong

Routine = Callable[[Tensor], Tensor]


def eight_bits(weight: Tensor) -> Tensor:
    """Return ``s · clamp(round(w / s), -128, 127)`` with ``s = max|w| / 127.5`` for each row."""
    scales = _scales(weight)
    return scales * (weight / scales).round().clamp(-128, 127)


def _scales(weight: Tensor) -> Tensor:
    largest = weight.abs().amax(1, keepdim=True)
    return (largest / 127.5).clamp(min=torch.finfo(weight.dtype).eps)


def rows(rng: torch.Generator, *shape: int) -> Tensor:
    """Return weights in which the entry of largest magnitude in each row is positive.

    For this entry, ``w / s`` is 127.5 or slightly less. In both cases, rounding and clamping give
    127.
    """
    weight = normal(rng, *shape)
    return weight * weight.gather(1, weight.abs().argmax(1, keepdim=True)).sign()


def with_a_row_of_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return three rows, the second of which contains only zeros."""
    weight = rows(rng, 3, 4)
    weight[1] = 0
    return (weight,)


def deepest(rng: torch.Generator) -> tuple[Tensor]:
    """Return rows whose entry of largest magnitude is negative, so ``w / s`` rounds to -128."""
    weight = 0.9 * normal(rng, 3, 4).tanh()
    weight[:, 1] = -127.5 / 128
    return (weight,)


def unclamped(weight: Tensor) -> Tensor:
    """Quantize the weight without the clamp."""
    return _scales(weight) * (weight / _scales(weight) + 1e-9).round()


def truncated(weight: Tensor) -> Tensor:
    """Quantize the weight, but truncate toward 0 instead of rounding."""
    return _scales(weight) * (weight / _scales(weight)).trunc()


def signed(weight: Tensor) -> Tensor:
    """Quantize the weight, but scale by each row's largest element, not its largest magnitude."""
    scales = (weight.amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype).eps)
    return scales * (weight / scales).round().clamp(-128, 127)


def by_127(weight: Tensor) -> Tensor:
    """Quantize the weight, but map the largest magnitude to 127."""
    scales = _scales(weight) * 127.5 / 127
    return scales * (weight / scales).round().clamp(-128, 127)


def integers(weight: Tensor) -> Tensor:
    """Quantize the weight, but do not multiply the integers by their scales."""
    return eight_bits(weight) / _scales(weight)


ONLY_ROUNDING = (
    " Here the gradient skips only the rounding. Autograd still differentiates the scale, which "
    "depends on the weight, and the clamp."
)


ONLY_CLAMPED = (
    " Here the gradient stops at elements that the clamp cuts off. The clamp belongs to the part "
    "that autograd treats as a constant, too."
)


def rounding_straight_through(scales_of: Routine) -> Routine:
    """Return a quantization whose gradient skips the rounding, but not the clamp or the scales."""

    def quantized(weight: Tensor) -> Tensor:
        scales = scales_of(weight)
        levels = weight / scales
        levels = levels + (levels.round() - levels).detach()
        return scales * levels.clamp(-128, 127)

    return quantized


PARTLY = {
    ONLY_ROUNDING: rounding_straight_through(_scales),
    ONLY_CLAMPED: rounding_straight_through(lambda weight: _scales(weight).detach()),
}


def _largest(weight: Tensor) -> Tensor:
    return weight.abs().amax(1, keepdim=True)


def scaled(
    scales: Callable[[Tensor], Tensor], *, low: int = -128, eps: bool = True
) -> Callable[[Tensor], Tensor]:
    """Return a quantization with different scales, a different smallest integer, or no eps."""

    def quantized(weight: Tensor) -> Tensor:
        s = scales(weight)
        s = s.clamp(min=torch.finfo(weight.dtype).eps) if eps else s
        return s * (weight / s).round().clamp(low, 127)

    return quantized


def leaves_the_weight(routine: Routine) -> Verdict | None:
    """Check that the function does not change the weight."""
    weight = rows(generator(), 3, 4)
    given = weight.clone()
    came = routine(given)
    if torch.equal(given, weight):
        return _not_rounded(came, weight)
    return wrong(
        "the result is right, but the function changes the weight, so the net loses its own "
        "weights. Operations whose name ends in _ write into their tensor."
    )


def _not_rounded(came: Tensor, weight: Tensor) -> Verdict | None:
    """Check that the result consists of whole steps, at most one step away from the weight."""
    steps = 127.5 / weight.abs().amax(1, keepdim=True)
    whole = (came * steps).round()
    if (whole - weight * steps).abs().max() <= 1 and torch.allclose(came * steps, whole):
        return None
    return wrong("the values are right if the weight requires no gradient, but not if it does.")


class EightBitLinear(nn.Module):
    """A linear layer that rounds its weight."""

    def __init__(self, routine: Routine) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 4))
        self.routine = routine

    def forward(self, x: Tensor) -> Tensor:
        """Return the product of ``x`` and the rounded weight."""
        return x @ self.routine(self.weight).T


def trainable(routine: Routine, weight: Tensor) -> nn.Module:
    """Return a layer in float64 with this weight."""
    net = EightBitLinear(routine)
    net.weight.data = weight
    return net


def trains(routine: Routine) -> Verdict | None:
    """Check the gradient of the weight in eager mode and after export."""
    rng = generator()
    weight, x, g = normal(rng, 3, 4), normal(rng, EXAMPLE, 4), normal(rng, EXAMPLE, 3)
    weight[0] = torch.tensor([0.25, 127.5 / 128, -0.5, 0.125])  # the second one rounds to 128
    net, asked = trainable(routine, weight), g.T @ x
    if verdict := _not_rounded(routine(net.get_parameter("weight")).detach(), weight):
        return verdict
    if said := _off(gradient := _gradient(net, x, g), asked):
        partly = (
            reason
            for reason, routine in PARTLY.items()
            if torch.allclose(gradient, _gradient(trainable(routine, weight), x, g))
        )
        also = next(partly, "")
        return wrong(f"the values are right, but the gradient of the weight {said}.{also}")
    if said := _off(_gradient(exported(net, x), x, g), asked):
        return wrong(
            "the gradient of the weight is right in eager mode, but after torch.export it "
            f"{said}. Export records only the operations of forward, and neither a backward nor a "
            "hook is an operation."
        )
    return None


def _gradient(net: nn.Module, x: Tensor, g: Tensor) -> Tensor:
    y, weight = net(x), net.get_parameter("weight")
    if not y.requires_grad:
        return torch.zeros_like(weight)
    (gradient,) = torch.autograd.grad(y, weight, g, materialize_grads=True)
    return gradient


def _off(found: Tensor, asked: Tensor) -> str:
    """Describe how a gradient differs from the expected gradient."""
    if torch.allclose(found, asked):
        return ""
    if not found.any():
        return "is zero everywhere, because the derivative of a rounding is zero"
    at = int((found - asked).abs().argmax())
    return (
        f"is {found.flatten()[at]:.4g} at element {at}, should be {asked.flatten()[at]:.4g}. It "
        "should be the gradient of the rounded weight, unchanged"
    )


EXERCISE = RoutineExercise(
    answer="eight_bits",
    points=2,
    difficulty="medium",
    minutes=9,
    section="Fewer bits",
    needs_sections=("The whole thing, working",),
    constraints="the gradient passes straight through in eager mode and in the exported program, "
    "and the weight does not change",
    reference=eight_bits,
    samplers={
        "a 3×5 matrix": lambda rng: (rows(rng, 3, 5),),
        "rows of very different size": lambda rng: (
            rows(rng, 3, 6) * torch.tensor([[1e-3], [1.0], [1e3]], dtype=torch.float64),
        ),
        "a single column": lambda rng: (rows(rng, 4, 1),),
        "a row of zeros": with_a_row_of_zeros,
        "rows with a negative number of the largest magnitude": deepest,
    },
    suspects={
        "The largest weight of a row becomes 128 steps, and a signed integer of eight bits ends at "
        "127. Clamp after you round.": unclamped,
        "Your result cuts off the fraction instead of rounding it.": truncated,
        "The element with the largest magnitude may be negative: take the absolute values first.": (
            signed
        ),
        "This scale maps the largest magnitude to 127, but the exercise asks for 127.5.": by_127,
        "These are the integers. Multiply them by the scale of their row.": integers,
        "All rows share one scale. Compute the largest magnitude of each row.": scaled(
            lambda weight: weight.abs().amax() / 127.5
        ),
        "Each column has a scale. Compute the largest magnitude of each row.": scaled(
            lambda weight: weight.abs().amax(0, keepdim=True) / 127.5
        ),
        "This scale maps the largest magnitude to 128, but the exercise asks for 127.5.": scaled(
            lambda weight: _largest(weight) / 128
        ),
        "This scale maps the largest magnitude to 255, which is the whole range. Half of it is "
        "127.5.": scaled(lambda weight: _largest(weight) / 255),
        "This scale maps the largest magnitude to 1. Divide it by 127.5.": scaled(_largest),
        "This scale is the upside-down one: divide the weight by s, and multiply by s.": scaled(
            lambda weight: 127.5 / _largest(weight).clamp(min=torch.finfo(weight.dtype).eps)
        ),
        "The smallest integer is -127 here, but a signed integer of eight bits begins at -128.": (
            scaled(lambda weight: _largest(weight) / 127.5, low=-127)
        ),
        "A row of zeros has the scale 0, and 0 / 0 is nan. The scale must be at least eps.": scaled(
            lambda weight: _largest(weight) / 127.5, eps=False
        ),
        "All negative numbers become 0. A signed integer of eight bits begins at -128.": scaled(
            lambda weight: _largest(weight) / 127.5, low=0
        ),
    },
    trials=(leaves_the_weight, trains),
    seconds=LONGEST,
)
