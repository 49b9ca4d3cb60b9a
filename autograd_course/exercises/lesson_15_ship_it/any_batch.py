"""A program for any batch

1. Three things go into the file as they are at that moment: the weights, the mode of the model, and
   of the example every length that you do not say may vary.
2. dynamic_shapes has one entry for each input, here a tuple of one: a dictionary from the number of
   an axis to a torch.export.Dim. And a copy may change its mode freely.
3. torch.export.export(copy.deepcopy(model).eval(), (example,), dynamic_shapes=({0:
   Dim("batch")},)).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.exercises.lesson_15_ship_it._nets import LONGEST, batch, weighted
from autograd_course.functions import ClippedReLU
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.trials.exporting import EXAMPLE, Applied, delivered, refused
from autograd_course.grader.verdict import Verdict, wrong


def ship(model: nn.Module, example: Tensor) -> None:
    """Say what the arguments are; the trial alone judges."""


OTHERS = (5, 1, 12)  # batch sizes that the example does not have


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


EXERCISE = RoutineExercise(
    answer="ship",
    points=2,
    difficulty="medium",
    minutes=9,
    section="What export refuses",
    constraints="saved and loaded it takes batches of any size, predicts as the model does in eval "
    "mode, and the model is left in the mode that it had",
    reference=ship,
    trials=(takes_any_batch,),
    seconds=LONGEST,
)
