"""A loss for each row, without the logits

1. Each row has its own g, which forward does not know yet. What must forward save for backward to
   be able to compute the gradient of a chunk?
2. Save x, weight, target, and for each row the log of the sum (torch.logsumexp). Then softmax(z) =
   exp(z - log of the sum). Both methods have the same loop over chunks. In backward, add up the
   gradient of the weight over the chunks, and write the rows of the gradient of x into their
   places.
3. In backward, for each chunk: z = x[rows] @ weight.t(); p = torch.exp(z - log_sum[rows, None]);
   subtract 1 from p at target[rows]; multiply by grad_output[rows, None]. Then grad_x[rows] = p @
   weight and grad_weight += p.t() @ x[rows].
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_07_memory_patterns._saved import bytes_of
from autograd_course.grader.checks import (
    CONDUCT,
    MANY,
    keeps_at_most,
    no_copy_on_ctx,
    on,
    peaks_at_most,
)
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import Grads, mistaken


def row_losses(x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
    """Return the cross entropy of each row of ``x Wᵀ``. ``chunk`` does not change the result."""
    return torch.nn.functional.cross_entropy(x @ weight.t(), target, reduction="none")


def labeled(rng: torch.Generator, rows: int, width: int, words: int) -> tuple[Tensor, ...]:
    """Return input rows, the output layer's weight, and a target word for each row."""
    target = torch.randint(words, (rows,), generator=rng, device="cpu")
    return normal(rng, rows, width), normal(rng, words, width), target


ROWS, WIDTH, WORDS, CHUNK = 512, 4, 64, 8


def a_few_chunks(x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> int:
    """Return enough for three times the gradients, some vectors, and eight chunks, in bytes."""
    return 3 * (x.nbytes + weight.nbytes) + 8 * (len(x) + chunk * len(weight)) * x.itemsize


never_builds_the_logits = on(
    lambda rng: (*labeled(rng, ROWS, WIDTH, WORDS), CHUNK),
    peaks_at_most(a_few_chunks, f"{ROWS} rows and {WORDS} words, in chunks of {CHUNK}"),
)


def chunked(
    change: Callable[[Tensor, Tensor], None],
    *,
    last: bool = False,
    scales: tuple[bool, bool] = (True, True),
    softmax_dim: int = 1,
    first: str = "",
    whole: bool = True,
    exponentials: Callable[[Tensor], Tensor] | None = None,
    rescale: Callable[[Tensor], Tensor] = lambda slope: slope,
    late: bool = False,
) -> Callable[..., Any]:
    """Return the losses with a backward that has a mistake in its loop over the chunks.

    ``change`` gets the softmax of a chunk and its targets, and subtracts the one-hot rows in
    place. With ``last``, the gradient of the weight includes only the last chunk. ``scales`` says
    whether ``grad_output`` multiplies the gradients of x and of the weight. ``first`` names a
    vector whose first elements every chunk reads. Without ``whole``, backward skips a chunk that is
    too short. ``exponentials`` replaces the softmax, and ``rescale`` changes its gradient. With
    ``late``, ``grad_output`` multiplies only the softmax.
    """

    def backward(inputs: Any, g: Tensor) -> Grads:
        x, weight, target, chunk = inputs
        grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
        for begin in range(0, len(x), chunk):
            rows = slice(begin, begin + chunk)
            logits = x[rows] @ weight.t()
            if len(logits) < chunk and not whole:
                break
            start = slice(0, len(logits))
            slope = exponentials(logits) if exponentials else torch.softmax(logits, softmax_dim)
            if first == "log_sums":
                sums = torch.logsumexp(x[start] @ weight.t(), 1, keepdim=True)
                slope = torch.exp(logits - sums)
            of_rows = g[start if first == "grad_output" else rows, None]
            slope = slope * of_rows if late else slope
            change(slope, target[start if first == "target" else rows])
            slope = rescale(slope)
            for_x, for_weight = (slope * of_rows if it and not late else slope for it in scales)
            grad_x[rows] = for_x @ weight
            grad_weight = (0 if last else grad_weight) + for_weight.t() @ x[rows]
        return grad_x, grad_weight

    return mistaken(row_losses, backward)


def _right(slope: Tensor, target: Tensor) -> None:
    slope[torch.arange(len(slope)), target] -= 1


def _all_rows(slope: Tensor, target: Tensor) -> None:
    slope[:, target] -= 1


def _plus(slope: Tensor, target: Tensor) -> None:
    slope[torch.arange(len(slope)), target] += 1


def _target_rows(slope: Tensor, target: Tensor) -> None:
    slope[target] -= 1


ROW_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "The sign is wrong. The loss is the logarithm of the sum minus the logit of the right word.": (
        lambda x, weight, target, chunk: -row_losses(x, weight, target, chunk)
    ),
    "The rows of the last chunk stay 0, because it has fewer rows than the others. Does the loop "
    "reach the last row?": lambda x, weight, target, chunk: (
        row_losses(x, weight, target, chunk) * (torch.arange(len(x)) < len(x) // chunk * chunk)
    ),
    "Every chunk reads the first targets. Chunk by chunk, it needs the same rows as x.": (
        lambda x, weight, target, chunk: row_losses(
            x, weight, target[torch.arange(len(x)) % chunk], chunk
        )
    ),
    "The logit of the right word is missing. Subtract it from the logarithm of the sum.": (
        lambda x, weight, target, chunk: torch.logsumexp(x @ weight.t(), 1)
    ),
}
ROW_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "You subtract 1 in the target columns of every row of the chunk: slope[:, t] selects all rows. "
    "Pair each row with its own target.": chunked(_all_rows),
    "The one-hot part is missing: you use the softmax alone. In each row, subtract 1 at the "
    "target.": chunked(lambda slope, target: None),
    "You add 1 at the target. The derivative is the softmax minus the one-hot row.": chunked(_plus),
    "You subtract 1 in whole rows, and use the targets as row numbers. In each row, subtract 1 at "
    "the column of its target.": chunked(_target_rows),
    "The gradient of the weight contains only the last chunk. All chunks share the weight, so add "
    "their gradients.": chunked(_right, last=True),
    "grad_output multiplies only the softmax, because you subtract 1 after the product. It "
    "multiplies the whole difference, softmax minus one-hot.": chunked(_right, late=True),
    "grad_output is in the gradient of x, but not in that of the weight.": (
        chunked(_right, scales=(True, False))
    ),
    "grad_output is in the gradient of the weight, but not in that of x.": (
        chunked(_right, scales=(False, True))
    ),
    **{
        f"Every chunk reads the first elements of {told}. Chunk by chunk, it needs the same rows "
        f"as x.": chunked(_right, first=name)
        for name, told in (
            ("target", "target"),
            ("grad_output", "grad_output"),
            ("log_sums", "the saved logarithms"),
        )
    },
    "The rows of the last chunk are left out, because it has fewer rows than the others.": (
        chunked(_right, whole=False)
    ),
    "The gradient is divided by the number of rows in a chunk. Each row has its own loss. Do not "
    "take a mean over the rows.": chunked(_right, rescale=lambda slope: slope / len(slope)),
    "Each row of exp(z) must be divided by its sum. Subtract the saved logarithm of the sum before "
    "you call exp.": chunked(_right, exponentials=torch.exp),
    "The softmax runs over the rows of a chunk. It must run over the words, dim 1 of the logits.": (
        chunked(_right, softmax_dim=0)
    ),
}

EXERCISE = FunctionExercise(
    answer="RowLosses",
    points=4,
    difficulty="hard",
    minutes=30,
    section="The price of early gradients",
    constraints="the logits of only a few chunks exist at any moment",
    reference=row_losses,
    samplers={
        # This comes first, because it immediately exposes an answer that forgets the last chunk.
        "7 rows in chunks of 3, and a last one of 1": lambda rng: (*labeled(rng, 7, 2, 4), 3),
        "6 rows in chunks of 2": lambda rng: (*labeled(rng, 6, 3, 5), 2),
        "a chunk longer than all rows": lambda rng: (*labeled(rng, 3, 2, 6), 8),
        "a single row": lambda rng: (*labeled(rng, 1, 3, 4), 1),
    },
    suspects=ROW_SUSPECTS,
    gradient_suspects=ROW_GRADIENTS,
    checks=(
        *CONDUCT,
        on(lambda rng: (*labeled(rng, *MANY, 9), 8), no_copy_on_ctx),
        keeps_at_most(
            lambda x, weight, target, chunk: bytes_of(x, weight, target) + 2 * len(x) * x.itemsize,
            "the inputs and two numbers for each row",
        ),
        never_builds_the_logits,
    ),
)
