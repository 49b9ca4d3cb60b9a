"""What did not arrive

1. Send the same g back through both models, and compare the gradients of each parameter. Which g
   finds every difference? A g of ones does not.
2. torch.autograd.grad takes g as grad_outputs. A parameter that the model does not use has no
   gradient: allow_unused=True returns None for it, and materialize_grads=True returns zeros.
3. y = model(x); g = torch.randn_like(y); names, parameters = zip(*model.named_parameters());
   torch.autograd.grad(y, parameters, g, materialize_grads=True). Do the same with shipped and the
   same g. Return the names for which torch.allclose is false.
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
    """Declare the answer's arguments. The trial checks the answer without a reference."""


class Rounding(torch.autograd.Function):
    """Round to tenths, with a straight-through gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x`` rounded to tenths."""
        return (10 * x).round() / 10

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return g."""
        return g


class Turning(Rounding):
    """Return the input unchanged, and reverse its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return a view of ``x``."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return -g."""
        return -g


def detached(x: Tensor) -> Tensor:
    """Round like ``Rounding``, but without a Function. The last digits can differ."""
    q = (10 * x).round() / 10
    return (7 * x + 7 * (q - x).detach()) / 7


class Spare(nn.Linear):
    """A linear layer with an unused additional parameter."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.spare = nn.Parameter(torch.ones(2))


def net_of(activation: Callable[[Tensor], Tensor], *last: nn.Module) -> nn.Module:
    """Return a net of two linear layers with ``activation`` between them."""
    return weighted(nn.Sequential(Spare(4, 6), Applied(activation), nn.Linear(6, 3), *last))


FIRST = ("0.weight", "0.bias")
SPARE = "0.spare"

UNUSED = "Neither model uses this parameter, so neither gives it a gradient. It is not lost."

# Description, net in eager mode, net to export, names of the lost gradients, and advice.
CASES: tuple[tuple[str, Callable[[], nn.Module], Callable[[], nn.Module], Any, str], ...] = (
    (
        "a rounding Function in eager mode and its surrogate in plain autograd after export",
        lambda: net_of(Rounding.apply),
        lambda: net_of(detached),
        (),
        "The gradients differ only in the last digits. Do you send the same g through both models, "
        "and do you compare with a tolerance?",
    ),
    (
        "an exported rounding Function",
        lambda: net_of(Rounding.apply),
        lambda: net_of(Rounding.apply),
        FIRST,
        "Before the rounding, the eager net gets a gradient and the exported net gets zeros.",
    ),
    (
        "an exported Function that reverses the gradient",
        lambda: net_of(Turning.apply),
        lambda: net_of(Turning.apply),
        FIRST,
        "A gradient arrives before the Function, but it has the wrong sign. Compare the values.",
    ),
    (
        "an exported rounding Function with a softmax at the end",
        lambda: net_of(Rounding.apply, nn.Softmax(-1)),
        lambda: net_of(Rounding.apply, nn.Softmax(-1)),
        FIRST,
        "The outputs of a softmax add up to 1, so the gradient of their sum is 0 in both nets. Use "
        "a g that is not the same for all outputs.",
    ),
    (
        "an exported program in which a layer is detached",
        lambda: net_of(Turning.apply),
        lambda: net_of(Tensor.detach),
        FIRST,
        "Nothing arrives before the detach, so autograd.grad has no gradient for these parameters. "
        "With allow_unused=True, it returns None. If only one of the two gradients is None, it is "
        "lost.",
    ),
)


def finds_what_is_lost(lost: Callable[..., Any]) -> Verdict | None:
    """Run the answer on nets for which the lost gradients are known."""
    for what, model, other, expected, word in CASES:
        net, shipped = model(), exported(copy.deepcopy(other()), batch(EXAMPLE))
        names = _names(lost(net, shipped, batch(EXAMPLE)))
        if isinstance(names, Verdict):
            return names
        if names and not expected and (told := _of_one_net(lost, model)):
            return told
        if names != set(expected):
            word = UNUSED if names == {SPARE, *expected} else word
            return wrong(
                f"for {what}, your function returns {_listed(names)}, should be "
                f"{_listed(expected)}. {word}"
            )
        if verdict := _filled(net) or _filled(shipped):
            return verdict
    return _changed(lost)


def _of_one_net(lost: Callable[..., Any], model: Callable[[], nn.Module]) -> Verdict | None:
    """Return a verdict if the answer reports lost gradients even for two copies of the same net."""
    net = model()
    names = _names(lost(net, copy.deepcopy(net), batch(EXAMPLE)))
    if isinstance(names, Verdict) or names <= {SPARE}:
        return None
    return wrong(
        f"for a net and a copy of it, your function returns {_listed(names)}, should be nothing. "
        "Send the same g through both models: draw it once."
    )


def _names(answer: Any) -> set[str] | Verdict:
    if not isinstance(answer, list):
        return wrong(
            f"the function returns {described(answer)}, but this exercise asks for a list of names "
            "of parameters."
        )
    if other := [name for name in answer if not isinstance(name, str)]:
        return wrong(
            f"the list contains {described(other[0])}, but this exercise asks for the names in "
            "named_parameters()."
        )
    return set(answer)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names)) or "nothing"


def _filled(model: nn.Module) -> Verdict | None:
    filled = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    if not filled:
        return None
    return wrong(
        f"the names are right, but the function fills the .grad of {filled[0]}, and the next "
        "training step would add to it. torch.autograd.grad returns gradients and fills no .grad."
    )


def _changed(lost: Callable[..., Any]) -> Verdict | None:
    """Check that the answer does not change the ``.grad`` that parameters already have."""
    net = net_of(Rounding.apply)
    shipped = exported(copy.deepcopy(net), batch(EXAMPLE))
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    lost(net, shipped, batch(EXAMPLE))
    for name, parameter in net.named_parameters():
        if parameter.grad is None or not bool((parameter.grad == 1).all()):
            return wrong(
                f"the names are right, but {name} has lost its old .grad, which the training still "
                "needs. zero_grad also erases these. torch.autograd.grad does not change any "
                ".grad."
            )
    return None


EXERCISE = RoutineExercise(
    answer="lost_gradients",
    points=3,
    difficulty="medium",
    minutes=15,
    section="What the graph holds",
    constraints="it returns exactly the parameters with a lost gradient and fills no .grad",
    reference=lost_gradients,
    trials=(finds_what_is_lost,),
    seconds=LONGEST,
)
