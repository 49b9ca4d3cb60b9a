"""Eight bits by hand

1. One scale for each row: which axis disappears, and how is it kept for the division? And what is 0
   / 0 in a row of zeros?
2. The largest magnitude of a row, divided by 127.5, and never below eps. Divide, round, and before
   the conversion see to it that no number is beyond what int8 holds.
3. s = (weight.abs().amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(weight.dtype).eps), and
   (weight / s).round().clamp(-128, 127).to(torch.int8).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, wrong


def eight_bits(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``s = max|w| / 127.5`` of each row, and ``clamp(round(w / s), -128, 127)``."""
    scales = _scales(weight)
    return scales, (weight / scales).round().clamp(-128, 127).to(torch.int8)


def _scales(weight: Tensor) -> Tensor:
    largest = weight.abs().amax(1, keepdim=True)
    return (largest / 127.5).clamp(min=torch.finfo(weight.dtype).eps)


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


EXERCISE = RoutineExercise(
    answer="eight_bits",
    points=2,
    difficulty="easy",
    minutes=6,
    section="Fewer bits",
    constraints="the weight stays as it is",
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
    atol=0.0,  # eps is tiny
)
