"""A sorter that learns on

1. The sorter in the lesson met all constraints except one: after the export, its first layers got
   gradients of zero. Which implementation of the levels keeps its gradient?
2. Write an nn.Module with two or three linear layers and levels between them, and a training loop
   with Adam and cross entropy. Then call the function of exercise 1. If the accuracy is too low,
   train for more steps or with a larger learning rate.
3. four_levels(x): h = x.clamp(0, 1); q = (h * 3).round() / 3; return (q - h).detach() + h. The net:
   Linear(64, 32), levels, Linear(32, 32), levels, Linear(32, 10). Train it with Adam, a learning
   rate of 0.005, for 100 steps on all images at once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.digits import HELD_OUT, Digits, split_digits
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.trials.exporting import delivered, refused
from autograd_course.grader.trials.products import data_used
from autograd_course.grader.verdict import Verdict, wrong

ASKED = 0.90
LEVELS = 4


def deliver(images: Tensor, labels: Tensor) -> None:
    """Declare the answer's arguments. The trial checks the answer without a reference."""


NEGLIGIBLE = 1e-8  # next to the largest gradient; float32 has seven digits
LAST_DIGITS = 1e-4  # the rounding error by which x + (q - x) differs from q


def delivers_a_sorter(deliver: Callable[[Tensor, Tensor], Any]) -> Verdict | None:
    """Call the answer, load the exported program, and check all constraints."""
    shown, held_out = split_digits()
    torch.manual_seed(0)  # the training gives the same net in every run
    shipped = delivered(deliver(*shown))
    if isinstance(shipped, Verdict):
        return shipped
    return (
        refused(shipped, held_out.images)
        or _not_on_levels(shipped, held_out.images)
        or _not_right(shipped, held_out)
        or _not_learning(shipped, held_out)
    )


def _not_on_levels(shipped: nn.Module, images: Tensor) -> Verdict | None:
    half = len(images) // 2
    arriving = list(data_used(shipped, images[:half], images[half : 2 * half]))
    if len(arriving) < 2:
        return wrong(
            "the program has no hidden layer. It should round the values between two products with "
            f"weights to {LEVELS} levels."
        )
    for number, values in enumerate(arriving[1:], 2):
        found = (values / LAST_DIGITS).round().unique() * LAST_DIGITS
        if len(found) > LEVELS:
            return wrong(
                f"the input of product {number} of the net has {len(found)} different values, from "
                f"{found[0]:.2g} to {found[-1]:.2g}, but this exercise asks for at most {LEVELS}."
            )
    return None


def _not_right(shipped: nn.Module, held_out: Digits) -> Verdict | None:
    with torch.no_grad():
        scores = shipped(held_out.images)
    if scores.shape != (HELD_OUT, 10):
        return wrong(
            f"for {HELD_OUT} images the program returns the shape {tuple(scores.shape)}, but this "
            f"exercise asks for scores of shape {(HELD_OUT, 10)}, one for each digit."
        )
    share = float((scores.argmax(-1) == held_out.labels).double().mean())
    if share < ASKED:
        return wrong(
            f"the loaded program classifies {share:.0%} of {HELD_OUT} held-out digits correctly, "
            f"but this exercise asks for {ASKED:.0%}. {_advice(shipped, held_out)}"
        )
    return None


def _advice(shipped: nn.Module, held_out: Digits) -> str:
    if asleep := _asleep(shipped, held_out):
        return (
            f"In the program, the gradient of {' and '.join(asleep)} is zero or negligible. Was it "
            "so during the training, too?"
        )
    return "Did you export the trained net? Do more steps or a larger learning rate help?"


def _asleep(shipped: nn.Module, held_out: Digits) -> list[str]:
    """Return the names of the weight matrices in the loaded program that get no gradient.

    A gradient that is tiny compared with the largest one does not count.
    """
    weights = {n: p for n, p in shipped.named_parameters() if p.dim() > 1}
    asking = {name: weight for name, weight in weights.items() if weight.requires_grad}
    loss = nn.functional.cross_entropy(shipped(held_out.images), held_out.labels)
    gradients: tuple[Any, ...] = ()
    if loss.requires_grad:
        gradients = torch.autograd.grad(loss, list(asking.values()), allow_unused=True)
    sizes = {n: float(g.norm()) for n, g in zip(asking, gradients, strict=False) if g is not None}
    least = NEGLIGIBLE * max(sizes.values(), default=0.0)
    return [n for n in weights if sizes.get(n, 0.0) <= least] if weights else ["any weight"]


def _not_learning(shipped: nn.Module, held_out: Digits) -> Verdict | None:
    asleep = _asleep(shipped, held_out)
    if not asleep:
        return None
    return wrong(
        "the loaded program predicts well, but it cannot learn: the gradient of "
        f"{' and '.join(asleep)} is zero or negligible. Which part of your levels is an operation "
        "of the graph, and which part is Python code that export drops?"
    )


EXERCISE = RoutineExercise(
    answer="deliver",
    points=4,
    difficulty="hard",
    minutes=25,
    section="The whole thing, working",
    constraints=f"the loaded program classifies at least {ASKED:.0%} of {HELD_OUT} held-out digits "
    f"correctly on {LEVELS} levels, takes any batch, and a gradient arrives at each weight",
    reference=deliver,
    trials=(delivers_a_sorter,),
    seconds=60.0,
)
