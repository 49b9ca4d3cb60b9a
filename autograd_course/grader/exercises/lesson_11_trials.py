"""What two routines of lesson 11 are put to: other batches, and a gradient turned around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.functions import ClippedReLU
from autograd_course.grader.sampling import normal
from autograd_course.grader.trials.exporting import (
    EXAMPLE,
    Applied,
    delivered,
    exported,
    refused,
)
from autograd_course.grader.verdict import Verdict, wrong

OTHERS = (5, 1, 12)  # batch sizes that the example does not have


def batch(size: int, seed: int = 0) -> Tensor:
    """Return ``size`` samples of four numbers."""
    return normal(torch.Generator().manual_seed(seed), size, 4)


def weighted(net: nn.Module) -> nn.Module:
    """Return the net in float64 with the same random weights each time."""
    rng = torch.Generator().manual_seed(1)
    net = net.double().cpu()
    for parameter in net.parameters():
        parameter.data = normal(rng, *parameter.shape)
    return net


def droppable() -> nn.Module:
    """Return a net with a Function and a dropout, in training mode."""
    layers = (Applied(ClippedReLU.apply), nn.Dropout(0.5), nn.Linear(6, 3))
    return weighted(nn.Sequential(nn.Linear(4, 6), *layers))


def takes_any_batch(ship: Callable[[nn.Module, Tensor], Any]) -> Verdict | None:
    """Ask for a program of a net in training mode that predicts, for batches of any size."""
    net = droppable()
    shipped = delivered(ship(net, batch(EXAMPLE)))
    if isinstance(shipped, Verdict):
        return shipped
    for size in OTHERS:
        if verdict := refused(shipped, batch(size)):
            return verdict
    return _predicts(shipped) or _left_alone(net)


def _predicts(shipped: nn.Module) -> Verdict | None:
    x, right = batch(12), droppable().eval()
    with torch.no_grad():
        once, again, expected = shipped(x), shipped(x), right(x)
    if not torch.allclose(once, again):
        return wrong(
            "two calls on the same batch give different scores: the dropout is on, and stays on. "
            "A program has no .eval(): it holds what the model did in the mode in which it was "
            "exported."
        )
    if not torch.allclose(once, expected):
        return wrong("the loaded program does not give the scores that the model gives in eager.")
    return None


def _left_alone(net: nn.Module) -> Verdict | None:
    if not net.training:
        return wrong(
            "the program is right, but the model that you were given was in training mode and now "
            "is not: whoever trains it on does so without dropout. Export a copy, or put its mode "
            "back."
        )
    theirs, ours = net.state_dict(), droppable().state_dict()
    if any(not torch.equal(theirs[name], ours[name]) for name in ours):
        return wrong("the program is right, but the model's own weights have been changed.")
    return None


# A gradient that is turned around, on both sides of an export


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
