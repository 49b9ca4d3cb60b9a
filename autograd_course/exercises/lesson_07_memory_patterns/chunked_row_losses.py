"""A loss for each row, without the logits

1. Each row has its own g, which forward does not know yet. What must forward save, so that backward
   can compute the gradient of a chunk?
2. Save x, weight, target, and for each row the log of the sum (torch.logsumexp). Then softmax(z) =
   exp(z - log of the sum). Both methods have the same loop over chunks. In backward, add up the
   gradient of the weight over the chunks, and write the rows of the gradient of x into their
   places.
3. In backward, for each chunk: z = x[rows] @ weight.t(); p = torch.exp(z - log_sum[rows, None]);
   subtract 1 from p at target[rows]; multiply by grad_output[rows, None]. Then grad_x[rows] = p @
   weight and grad_weight += p.t() @ x[rows].
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_07_memory_patterns._saved import bytes_of
from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_copy_on_ctx, peaks_at_most
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def row_losses(x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
    """Return the cross entropy of each row of ``x Wᵀ``. The result ignores ``chunk``."""
    return torch.nn.functional.cross_entropy(x @ weight.t(), target, reduction="none")


def labeled(rng: torch.Generator, rows: int, width: int, words: int) -> tuple[Tensor, ...]:
    """Return input rows, the weight of the output layer, and a target word for each row."""
    target = torch.randint(words, (rows,), generator=rng, device="cpu")
    return normal(rng, rows, width), normal(rng, words, width), target


ROWS, WIDTH, WORDS, CHUNK = 512, 4, 64, 8


def never_builds_the_logits(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check with many rows that the Function never creates a matrix of rows × words."""
    rng = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, WIDTH, generator=rng, dtype=torch.float64) for n in (ROWS, WORDS))
    target = torch.randint(WORDS, (ROWS,), generator=rng)
    # This covers the gradients and running sums three times, some vectors, and eight chunks.
    allowed = 3 * (x.nbytes + weight.nbytes) + 8 * (ROWS + CHUNK * WORDS) * x.itemsize
    told = f"{ROWS} rows and {WORDS} words, in chunks of {CHUNK}"
    return peaks_at_most(lambda *_: allowed, told)(function, (x, weight, target, CHUNK))


EXERCISE = FunctionExercise(
    answer="RowLosses",
    points=4,
    difficulty="hard",
    minutes=30,
    section="The price of early gradients",
    constraints="the logits of only a few chunks exist at any moment",
    reference=row_losses,
    samplers={
        "6 rows in chunks of 2": lambda rng: (*labeled(rng, 6, 3, 5), 2),
        "7 rows in chunks of 3": lambda rng: (*labeled(rng, 7, 2, 4), 3),
        "a chunk longer than all rows": lambda rng: (*labeled(rng, 3, 2, 6), 8),
        "a single row": lambda rng: (*labeled(rng, 1, 3, 4), 1),
    },
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x, weight, target, chunk: bytes_of(x, weight, target) + 2 * len(x) * x.itemsize,
            "the inputs and two numbers for each row",
        ),
        never_builds_the_logits,
    ),
)
