"""The exercises of lesson 11: ship a model with a Function, and prove that it arrived."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from autograd_course.grader.exercise import Exercise, RoutineExercise, Sampler
from autograd_course.grader.exercises.lesson_11_lost import finds_what_is_lost
from autograd_course.grader.exercises.lesson_11_onnx import TRANSLATION
from autograd_course.grader.exercises.lesson_11_sorter import SORTER
from autograd_course.grader.exercises.lesson_11_trials import (
    reverses_on_both_sides,
    takes_any_batch,
)
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, wrong

LESSON = "11_ship_it"
TITLE = "Ship it"
LONGEST = 60.0  # seconds: the first export of a process imports the compiler's front end


def ship(model: nn.Module, example: Tensor) -> None:
    """Say what the arguments are; the trial alone judges."""


def lost_gradients(model: nn.Module, shipped: nn.Module, x: Tensor) -> None:
    """Say what the arguments are; the trial alone judges."""


def reverse(x: Tensor, strength: float) -> Tensor:
    """Return the values of ``x``; what becomes of its gradient is for the trial."""
    return x.clone()


def eight_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``s = max|w| / 127.5`` of each row, and ``clamp(round(w / s), -128, 127)``."""
    scales = _scales(weight)
    return scales, (weight / scales).round().clamp(-128, 127).to(torch.int8)


def _scales(weight: Tensor) -> Tensor:
    largest = weight.abs().amax(1, keepdim=True)
    return (largest / 127.5).clamp(min=torch.finfo(weight.dtype).eps)


def unclamped(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same without the clamp; as on most processors, 128 turns into -128."""
    whole = (weight / _scales(weight)).round().to(torch.int64)
    return _scales(weight), ((whole + 128) % 256 - 128).to(torch.int8)


def truncated(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same, with the digits behind the point cut off."""
    return _scales(weight), (weight / _scales(weight)).to(torch.int8)


def signed(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same with the largest element of a row for its largest magnitude."""
    largest = weight.amax(1, keepdim=True)
    scales = (largest / 127.5).clamp(min=torch.finfo(weight.dtype).eps)
    return scales, (weight / scales).round().clamp(-128, 127).to(torch.int8)


def by_127(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same with the largest integer, 127, for the largest magnitude."""
    scales = _scales(weight) * 127.5 / 127
    return scales, (weight / scales).round().clamp(-128, 127).to(torch.int8)


def leaves_the_weight(routine: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Verdict | None:
    """Ask that the weight that is handed in holds the same numbers afterwards."""
    weight = rows(torch.Generator().manual_seed(0), 3, 4)
    given = weight.clone()
    routine(given)
    if torch.equal(given, weight):
        return None
    return wrong(
        "right, but the weight itself is changed: who calls it with the weight of a net has lost "
        "that. Operations whose name ends in _ write into their tensor."
    )


def rows(rng: torch.Generator, *shape: int) -> Tensor:
    """Return weights of which the largest of each row is positive, so that no form of w / s ties.

    The largest goes to 127.5, or a last digit below it, and to 127 in both cases.
    """
    weight = normal(rng, *shape)
    return weight * weight.gather(1, weight.abs().argmax(1, keepdim=True)).sign()


def with_a_row_of_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return three rows, the second of zeros."""
    weight = rows(rng, 3, 4)
    weight[1] = 0
    return (weight,)


def deepest(rng: torch.Generator) -> tuple[Tensor]:
    """Return rows of which the largest is negative; it goes to -127.5 exactly, and to -128."""
    weight = 0.9 * normal(rng, 3, 4).tanh()
    weight[:, 1] = -127.5 / 128
    return (weight,)


WEIGHTS: Mapping[str, Sampler] = {
    "a 3×5 matrix": lambda rng: (rows(rng, 3, 5),),
    "rows of very different size": lambda rng: (
        rows(rng, 3, 6) * torch.tensor([[1e-3], [1.0], [1e3]], dtype=torch.float64),
    ),
    "a single column": lambda rng: (rows(rng, 4, 1),),
    "a row of zeros": with_a_row_of_zeros,
    "rows with a negative number of the largest magnitude": deepest,
}

VALUES: Mapping[str, Sampler] = {
    "strength 1": lambda rng: (normal(rng, 3, 5), 1.0),
    "strength 0.3": lambda rng: (normal(rng, 2, 1, 3), 0.3),
    "a single number (0-dim)": lambda rng: (normal(rng), 0.5),
}

ROUTINES: tuple[RoutineExercise, ...] = (
    RoutineExercise(
        id="any-batch",
        lesson=LESSON,
        title="A program for any batch",
        points=2,
        reference=ship,
        samplers={},
        trials=(takes_any_batch,),
        seconds=LONGEST,
        bounds=(
            "saved and loaded it takes batches of any size, predicts as the model does in eval "
            "mode, and the model is left in the mode that it had"
        ),
        hints=(
            "Three things go into the file as they are at that moment: the weights, the mode of "
            "the model, and of the example every length that you do not say may vary.",
            "dynamic_shapes has one entry for each input, here a tuple of one: a dictionary from "
            "the number of an axis to a torch.export.Dim. And a copy may change its mode freely.",
            "torch.export.export(copy.deepcopy(model).eval(), (example,), "
            'dynamic_shapes=({0: Dim("batch")},)).',
        ),
        read='lesson 11, "What export refuses"',
    ),
    RoutineExercise(
        id="lost-gradients",
        lesson=LESSON,
        title="What did not arrive",
        points=3,
        reference=lost_gradients,
        samplers={},
        trials=(finds_what_is_lost,),
        seconds=LONGEST,
        bounds="it finds what is lost, blames nothing else, and fills nobody's .grad",
        hints=(
            "Send the same g back through both models and compare, parameter by parameter. Which g "
            "sees everything? One of all ones does not.",
            "torch.autograd.grad takes g as grad_outputs. A parameter that nothing uses has no "
            "gradient on either side: allow_unused=True gives None for it, materialize_grads=True "
            "gives zeros.",
            "y = model(x); g = torch.randn_like(y); names, parameters = "
            "zip(*model.named_parameters()); torch.autograd.grad(y, parameters, g, "
            "materialize_grads=True); the same with shipped, and the same g; the names of those "
            "pairs that are not torch.allclose.",
        ),
        read='lesson 11, "What the graph holds"',
    ),
    RoutineExercise(
        id="reversal-that-travels",
        lesson=LESSON,
        title="A reversal that travels",
        points=2,
        reference=reverse,
        samplers=VALUES,
        trials=(reverses_on_both_sides,),
        seconds=LONGEST,
        bounds="the gradient is turned around in eager and behind torch.export alike",
        hints=(
            "detach is an operation of the graph, and backward is not. Write the result as a sum "
            "of two parts: one that autograd takes for a constant, and one that it differentiates.",
            "The differentiated part is -strength · x, whose derivative is what you want. Its "
            "value you do not want: what must the constant part add to make the sum x?",
            "With r = -strength * x: the result is r + (x - r).detach().",
        ),
        read='lesson 11, "Three ways to carry a gradient"',
    ),
)

BITS: tuple[RoutineExercise, ...] = (
    RoutineExercise(
        id="eight-bits",
        lesson=LESSON,
        title="Eight bits by hand",
        points=2,
        reference=eight_bits,
        samplers=WEIGHTS,
        atol=0.0,  # eps is tiny
        suspects={
            "The largest weight of a row has become the most negative integer: 127.5 is rounded to "
            "128, one more than eight bits hold.": unclamped,
            "A conversion to integers cuts off what is behind the point; it does not round.": (
                truncated
            ),
            "The largest number of a row need not be the one of the largest magnitude: take the "
            "absolute values first.": signed,
            "That scale takes the largest magnitude to 127. Asked for is the one that spreads the "
            "two signs over all 255 steps.": by_127,
        },
        trials=(leaves_the_weight,),
        bounds="the weight stays as it is",
        hints=(
            "One scale for each row: which axis disappears, and how is it kept for the division? "
            "And what is 0 / 0 in a row of zeros?",
            "The largest magnitude of a row, divided by 127.5, and never below eps. Divide, round, "
            "and before the conversion see to it that no number is beyond what int8 holds.",
            "s = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype)"
            ".eps), and (weight / s).round().clamp(-128, 127).to(torch.int8).",
        ),
        read='lesson 11, "Fewer bits"',
    ),
)

EXERCISES: tuple[Exercise, ...] = (*ROUTINES, *TRANSLATION, *BITS, *SORTER)
