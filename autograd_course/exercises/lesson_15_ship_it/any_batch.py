"""A program for any batch

1. The program keeps three things as they were at the time of the export: the weights, the model's
   mode, and each size of the example that you did not declare as dynamic.
2. dynamic_shapes is a tuple with one entry for each input. Each entry is a dictionary that maps the
   index of a dim to a torch.export.Dim. You can change the mode of a copy without changing the
   model.
3. torch.export.export(copy.deepcopy(model).eval(), (example,), dynamic_shapes=({0:
   Dim("batch")},)).
"""

import copy
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
    """Declare the answer's arguments. The trial checks the answer without a reference."""


OTHERS = (5, 1, 12)  # batch sizes that differ from the example's
MANY = 100_000  # a batch larger than any bound that a learner would choose


def droppable() -> nn.Module:
    """Return a net in training mode that contains a Function, dropout and one frozen layer."""
    layers = (Applied(ClippedReLU.apply), nn.Dropout(0.5), nn.Linear(6, 3).eval())
    return weighted(nn.Sequential(nn.Linear(4, 6), *layers))


def takes_any_batch(ship: Callable[[nn.Module, Tensor], Any]) -> Verdict | None:
    """Export a net in training mode, and check the program with batches of several sizes."""
    net = droppable()
    given = copy.deepcopy(net)
    shipped = delivered(ship(net, batch(EXAMPLE)))
    if isinstance(shipped, Verdict):
        return shipped
    for size in OTHERS:
        if verdict := refused(shipped, batch(size)):
            return verdict
    if refused(shipped, batch(MANY)):
        return wrong(
            f"the loaded program takes small batches, but it raises an error for {MANY:,} rows. "
            "Does your torch.export.Dim have a max? Leave it out."
        )
    return _predicts(shipped, given) or _left_alone(net, given)


def _predicts(shipped: nn.Module, given: nn.Module) -> Verdict | None:
    x, right = batch(12), copy.deepcopy(given).eval()
    with torch.no_grad():
        once, again, expected = shipped(x), shipped(x), right(x)
    if not torch.allclose(once, again):
        return wrong(
            "two calls with the same batch give different scores, because the dropout is on. A "
            "program has no .eval(). It always computes what the model computed in the mode in "
            "which you exported it. `.eval()` changes the mode of every layer, but `model.training "
            "= False` changes only the outermost module."
        )
    if not torch.allclose(once, expected):
        return wrong("the loaded program and the model in eager mode give different scores.")
    return None


def _left_alone(net: nn.Module, given: nn.Module) -> Verdict | None:
    if not net.training:
        return wrong(
            "the program is right, but the model was in training mode and now it is not. The rest "
            "of its training would run without dropout. Export a copy, or restore the mode."
        )
    if [it.training for it in net.modules()] != [it.training for it in given.modules()]:
        return wrong(
            "the program is right, but one layer of the model was in eval mode because it is "
            "frozen, and now it is not. model.train() changes the mode of all layers. Export a "
            "copy, or restore the mode of each module."
        )
    theirs, ours = net.state_dict(), given.state_dict()
    if any(not torch.equal(theirs[name], ours[name]) for name in ours):
        return wrong("the program is right, but your function has changed the model's weights.")
    return None


EXERCISE = RoutineExercise(
    answer="ship",
    points=2,
    difficulty="medium",
    minutes=9,
    section="What export refuses",
    constraints="the loaded program takes batches of any size and predicts as the model does in "
    "eval mode, and the model keeps its mode",
    reference=ship,
    trials=(takes_any_batch,),
    seconds=LONGEST,
)
