"""What the exports of lesson 11 are put to: other batches, lost gradients, a reversed one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.functions import ClippedReLU
from autograd_course.grader.sampling import normal
from autograd_course.grader.trials.exporting import (
    EXAMPLE,
    Applied,
    delivered,
    described,
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


# Which gradients did not arrive?


class Rounding(torch.autograd.Function):
    """Round to tenths; straight through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the nearest tenths."""
        return (10 * x).round() / 10

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return g."""
        return g


class Turning(Rounding):
    """Leave the values, turn the gradient around."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the same numbers."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return -g."""
        return -g


def detached(x: Tensor) -> Tensor:
    """Round, straight through, in plain autograd; the last digits differ from ``Rounding``'s."""
    q = (10 * x).round() / 10
    return (7 * x + 7 * (q - x).detach()) / 7


class Spare(nn.Linear):
    """A layer with a parameter that nothing uses."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.spare = nn.Parameter(torch.ones(2))


def net_of(activation: Callable[[Tensor], Tensor], *last: nn.Module) -> nn.Module:
    """Return a net of two layers with this activation between them."""
    return weighted(nn.Sequential(Spare(4, 6), Applied(activation), nn.Linear(6, 3), *last))


FIRST = ("0.weight", "0.bias")
# What is shipped, the net in eager, the net that was exported, what is lost, a word on it.
CASES: tuple[tuple[str, Callable[[], nn.Module], Callable[[], nn.Module], Any, str], ...] = (
    (
        "a rounding Function in eager, its surrogate in plain autograd exported",
        lambda: net_of(Rounding.apply),
        lambda: net_of(detached),
        (),
        "They are the same but for rounding in the last digits. Was the same g sent through both, "
        "and are they compared with a tolerance?",
    ),
    (
        "a rounding Function, exported",
        lambda: net_of(Rounding.apply),
        lambda: net_of(Rounding.apply),
        FIRST,
        "Below the rounding, eager gets a gradient and the exported net gets zeros.",
    ),
    (
        "a Function that turns the gradient around, exported",
        lambda: net_of(Turning.apply),
        lambda: net_of(Turning.apply),
        FIRST,
        "A gradient does arrive below it, and it has the wrong sign: compare the values.",
    ),
    (
        "a rounding Function and a softmax at the end, exported",
        lambda: net_of(Rounding.apply, nn.Softmax(-1)),
        lambda: net_of(Rounding.apply, nn.Softmax(-1)),
        FIRST,
        "The outputs of a softmax add up to 1: the gradient of their sum is 0 on every way, right "
        "or wrong. Send a g back that is not the same for all outputs.",
    ),
)


def finds_what_is_lost(lost: Callable[..., Any]) -> Verdict | None:
    """Ask for the lost gradients of nets of which it is known."""
    for what, model, other, expected, word in CASES:
        net, shipped = model(), exported(copy.deepcopy(other()), batch(EXAMPLE))
        names = _names(lost(net, shipped, batch(EXAMPLE)))
        if isinstance(names, Verdict):
            return names
        if names != set(expected):
            return wrong(
                f"with {what}, it names {_listed(names)}; lost is {_listed(expected)}. {word}"
            )
        if verdict := _filled(net) or _filled(shipped):
            return verdict
    return None


def _names(answer: Any) -> set[str] | Verdict:
    if isinstance(answer, Iterable) and not isinstance(answer, str | Tensor):
        names = list(answer)
        if all(isinstance(name, str) for name in names):
            return set(names)
        return wrong(
            f"the list holds {described(names[0])}; asked for are the names of parameters, "
            "as named_parameters() gives them."
        )
    return wrong(
        f"the function returns {described(answer)}; asked for is a list of names of parameters."
    )


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names)) or "nothing"


def _filled(model: nn.Module) -> Verdict | None:
    filled = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    if not filled:
        return None
    return wrong(
        f"the names are right, but the .grad of {filled[0]} has been filled on the way: the next "
        "training step would add to it. torch.autograd.grad returns gradients and fills none."
    )


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
        if (came := _passed(exported(net, batch(EXAMPLE)))) != -strength:
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
