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
from autograd_course.grader.sampling import generator
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


class Damping(Turning):
    """Return the input unchanged, and 9/10 of its gradient."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return 0.9 g."""
        return 0.9 * g


def detached(x: Tensor) -> Tensor:
    """Round like ``Rounding``, but without a Function. The last digits can differ."""
    q = (10 * x).round() / 10
    return (7 * x + 7 * (q - x).detach()) / 7


class Spare(nn.Linear):
    """A linear layer with an unused additional parameter."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.spare = nn.Parameter(torch.ones(2))


Activation = Callable[[Tensor], Tensor]


def net_of(activation: Activation, place: int, *last: nn.Module) -> nn.Module:
    """Return a net of three linear layers, with ``activation`` in front of layer ``place``."""
    layers: list[nn.Module] = [Spare(4, 6), nn.Linear(6, 5), nn.Linear(5, 3), *last]
    layers.insert(place, Applied(activation))
    return weighted(nn.Sequential(*layers))


def before(place: int) -> set[str]:
    """Return the names of the parameters in front of layer ``place`` that the net uses."""
    return {f"{layer}.{kind}" for layer in range(place) for kind in ("weight", "bias")}


SPARE = "0.spare"

UNUSED = "Neither model uses this parameter, so neither gives it a gradient. It is not lost."

WITH_SOFTMAX = "an exported rounding Function with a softmax at the end"

# Description, activation in eager mode and in the net to export, whether the layers in front of it
# lose their gradients, and advice.
CASES: tuple[tuple[str, Activation, Activation, bool, str], ...] = (
    (
        "a rounding Function in eager mode and its surrogate in plain autograd after export",
        Rounding.apply,
        detached,
        False,
        "The gradients differ only in the last digits. Do you send the same g through both models, "
        "and do you compare with a tolerance?",
    ),
    (
        "an exported rounding Function",
        Rounding.apply,
        Rounding.apply,
        True,
        "Before the rounding, the eager net gets a gradient and the exported net gets zeros.",
    ),
    (
        "an exported Function that reverses the gradient",
        Turning.apply,
        Turning.apply,
        True,
        "A gradient arrives before the Function, but it has the wrong sign. Compare the values.",
    ),
    (
        "an exported Function that makes the gradient smaller by a tenth",
        Damping.apply,
        Damping.apply,
        True,
        "A gradient arrives before the Function, but it is smaller. Compare the values. Only the "
        "last digits may differ.",
    ),
    (
        WITH_SOFTMAX,
        Rounding.apply,
        Rounding.apply,
        True,
        "The outputs of a softmax add up to 1, so the gradient of their sum is 0 in both nets. Use "
        "a g that is not the same for all outputs.",
    ),
    (
        "an exported program in which a layer is detached",
        Turning.apply,
        Tensor.detach,
        True,
        "Nothing arrives before the detach, so autograd.grad has no gradient for these parameters. "
        "With allow_unused=True, it returns None. If only one of the two gradients is None, it is "
        "lost.",
    ),
)


def finds_what_is_lost(lost: Callable[..., Any]) -> Verdict | None:
    """Run the answer on nets for which the lost gradients are known.

    The order of the nets and the place of the activation are random.
    """
    rng = generator()
    first = int(torch.randint(2, (), generator=rng))
    for number in torch.randperm(len(CASES), generator=rng).tolist():
        what, activation, other, is_lost, word = CASES[number]
        place = 1 + (first + number) % 2
        last = (nn.Softmax(-1),) if what == WITH_SOFTMAX else ()
        net, to_export = (net_of(each, place, *last) for each in (activation, other))
        to_export.load_state_dict(net.state_dict())
        expected = before(place) if is_lost else set()
        shipped = exported(to_export, batch(EXAMPLE))
        names = _names(lost(net, shipped, batch(EXAMPLE)))
        if isinstance(names, Verdict):
            return names
        if names - expected - {SPARE} and (told := _of_one_net(lost, net)):
            return told
        if names != expected:
            word = UNUSED if names == {SPARE, *expected} else word
            return wrong(
                f"for {what}, your function returns {_listed(names)}, should be "
                f"{_listed(expected)}. {word}"
            )
        if verdict := _filled(net) or _filled(shipped):
            return verdict
    return _changed(lost)


def _of_one_net(lost: Callable[..., Any], net: nn.Module) -> Verdict | None:
    """Return a verdict if the answer reports lost gradients even for two copies of the same net."""
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
    net = net_of(Rounding.apply, 1)
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
