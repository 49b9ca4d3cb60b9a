"""What did not arrive

1. Send the same g back through both models and compare, parameter by parameter. Which g sees
   everything? One of all ones does not.
2. torch.autograd.grad takes g as grad_outputs. A parameter that nothing uses has no gradient on
   either side: allow_unused=True gives None for it, materialize_grads=True gives zeros.
3. y = model(x); g = torch.randn_like(y); names, parameters = zip(*model.named_parameters());
   torch.autograd.grad(y, parameters, g, materialize_grads=True); the same with shipped, and the
   same g; the names of those pairs that are not torch.allclose.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.exercises.lesson_15_ship_it._nets import LONGEST, batch, weighted
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.trials.exporting import EXAMPLE, Applied, described, exported
from autograd_course.grader.verdict import Verdict, wrong


def lost_gradients(model: nn.Module, shipped: nn.Module, x: Tensor) -> None:
    """Say what the arguments are; the trial alone judges."""


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
SPARE = "0.spare"

UNUSED = (
    "No gradient arrives at it on either side, since neither model uses it: None on both sides."
)

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
            word = UNUSED if names == {SPARE, *expected} else word
            return wrong(
                f"with {what}, it names {_listed(names)}; lost is {_listed(expected)}. {word}"
            )
        if verdict := _filled(net) or _filled(shipped):
            return verdict
    return _changed(lost)


def _names(answer: Any) -> set[str] | Verdict:
    if not isinstance(answer, list):
        return wrong(
            f"the function returns {described(answer)}; this exercise asks for a list of the names "
            "of parameters."
        )
    if other := [name for name in answer if not isinstance(name, str)]:
        return wrong(
            f"the list holds {described(other[0])}; this exercise asks for the names of parameters "
            "as named_parameters() gives them."
        )
    return set(answer)


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


def _changed(lost: Callable[..., Any]) -> Verdict | None:
    """Ask once more, with a model that is between backward and the optimizer's step."""
    net = net_of(Rounding.apply)
    shipped = exported(copy.deepcopy(net), batch(EXAMPLE))
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    lost(net, shipped, batch(EXAMPLE))
    for name, parameter in net.named_parameters():
        if parameter.grad is None or not bool((parameter.grad == 1).all()):
            return wrong(
                f"the names are right, but the .grad that {name} had before is lost: zero_grad "
                "also wipes what the training still needs. torch.autograd.grad returns gradients "
                "and touches no .grad."
            )
    return None


EXERCISE = RoutineExercise(
    answer="lost_gradients",
    points=3,
    difficulty="medium",
    minutes=15,
    section="What the graph holds",
    constraints="it finds what is lost, blames nothing else, and fills nobody's .grad",
    reference=lost_gradients,
    trials=(finds_what_is_lost,),
    seconds=LONGEST,
)
