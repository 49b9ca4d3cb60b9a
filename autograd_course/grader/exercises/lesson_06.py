"""The exercises of lesson 06: four Functions and a checkpoint, to budgets of bytes."""

from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    keeps_at_most,
    no_copy_on_ctx,
    no_tensor_on_ctx,
)
from autograd_course.grader.exercise import Exercise, FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_06_bounds import (
    forgets_the_halves,
    keeps_no_intermediate,
    never_builds_the_logits,
    stops_at_zero,
)
from autograd_course.grader.exercises.lesson_06_checkpoint import CHECKPOINT
from autograd_course.grader.exercises.lesson_06_suspects import PACKED_GRADIENTS
from autograd_course.grader.sampling import around, normal

LESSON = "06_memory_patterns"
TITLE = "The same gradient in less memory"


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``max(x Wᵀ + b, 0)``."""
    return torch.nn.functional.linear(x, weight, bias).relu()


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Return ``x`` where it is positive, ``slope · x`` elsewhere."""
    return torch.where(x > 0, x, slope * x)


def coupling(x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``y1 = x1 + tanh(x2 w)`` and ``y2 = x2 + tanh(y1 v)``."""
    y1 = x1 + torch.tanh(x2 @ w)
    return y1, x2 + torch.tanh(y1 @ v)


def row_losses(x: Tensor, weight: Tensor, target: Tensor, chunk: int) -> Tensor:
    """Return the cross entropy of each row of ``x Wᵀ``; ``chunk`` does not change it."""
    return torch.nn.functional.cross_entropy(x @ weight.t(), target, reduction="none")


def labeled(rng: torch.Generator, rows: int, width: int, words: int) -> tuple[Tensor, ...]:
    """Return rows, the weight of a head, and a word for each row."""
    target = torch.randint(words, (rows,), generator=rng, device="cpu")
    return normal(rng, rows, width), normal(rng, words, width), target


def both_signs(rng: torch.Generator, *shape: int) -> Tensor:
    """Return numbers on both sides of 0 in no order, so that no mistake makes one mask of another.

    Where the sides take turns, the digits of a byte in reverse are those of the other side.
    """
    flat = around(rng, (0.0,), torch.Size(shape).numel())
    return flat[torch.randperm(flat.numel(), generator=rng, device="cpu")].reshape(shape)


LAYERS: Mapping[str, Sampler] = {
    "a batch of 5 rows": lambda rng: (normal(rng, 5, 3), normal(rng, 4, 3), normal(rng, 4)),
    "a single row": lambda rng: (normal(rng, 1, 3), normal(rng, 2, 3), normal(rng, 2)),
    "one feature in": lambda rng: (normal(rng, 6, 1), normal(rng, 3, 1), normal(rng, 3)),
}

LEAKY: Mapping[str, Sampler] = {
    "24 elements": lambda rng: (both_signs(rng, 4, 6), 0.1),
    "a number not divisible by 8": lambda rng: (both_signs(rng, 13), 0.3),
    "three axes, one of length 1": lambda rng: (both_signs(rng, 3, 1, 7), 0.01),
    "a negative slope": lambda rng: (both_signs(rng, 2, 5), -0.5),
    "a single number (0-dim)": lambda rng: (-around(rng, (0.0,)).abs(), 0.2),
}

HALVES: Mapping[str, Sampler] = {
    "a batch of 5 rows": lambda rng: (
        *(normal(rng, 5, 3), normal(rng, 5, 2)),
        *(normal(rng, 2, 3), normal(rng, 3, 2)),
    ),
    "a single row": lambda rng: (
        *(normal(rng, 1, 4), normal(rng, 1, 4)),
        *(normal(rng, 4, 4), normal(rng, 4, 4)),
    ),
    "halves one wide": lambda rng: (
        *(normal(rng, 6, 1), normal(rng, 6, 1)),
        *(normal(rng, 1, 1), normal(rng, 1, 1)),
    ),
}

ROWS: Mapping[str, Sampler] = {
    "6 rows in chunks of 2": lambda rng: (*labeled(rng, 6, 3, 5), 2),
    "7 rows in chunks of 3": lambda rng: (*labeled(rng, 7, 2, 4), 3),
    "a chunk longer than all rows": lambda rng: (*labeled(rng, 3, 2, 6), 8),
    "a single row": lambda rng: (*labeled(rng, 1, 3, 4), 1),
}


def _bytes(*tensors: Tensor) -> int:
    return sum(tensor.nbytes for tensor in tensors)


LINEAR_RELU = FunctionExercise(
    id="fused-linear-relu",
    lesson=LESSON,
    title="Linear and ReLU in one",
    points=2,
    reference=linear_relu,
    samplers=LAYERS,
    hints=(
        "Composed, the ReLU would keep its output for itself, and the linear layer its input and "
        "weight. What does the ReLU's backward read from that output?",
        "Only where it is positive. So set grad_output to zero where the output is zero, and what "
        "remains is the backward of a linear layer, which you know from lesson 01.",
        "Save x, weight and the returned y. g = grad_output * (y > 0); the gradients are "
        "g @ weight, g.t() @ x and g.sum(0).",
    ),
    read='lesson 06, "Fuse what stands together"',
    checks=(
        backward_is_a_formula,
        no_tensor_on_ctx,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x, weight, bias: _bytes(x, weight, bias) + len(x) * len(weight) * x.itemsize,
            "the inputs and the output, no more",
        ),
        keeps_no_intermediate,
        stops_at_zero,
    ),
    bounds="nothing but inputs and the output is kept",
)

PACKED = FunctionExercise(
    id="packed-leaky-relu",
    lesson=LESSON,
    title="Leaky ReLU with a packed mask",
    points=3,
    reference=leaky_relu,
    samplers=LEAKY,
    asked=("input-layout",),
    gradient_suspects=PACKED_GRADIENTS,
    hints=(
        "Eight numbers that are 0 or 1, as the digits of one number from 0 to 255: what is each of "
        "them worth? And what if the mask's length is not a multiple of eight?",
        "Flatten x > 0, fill it up with False to a multiple of 8, reshape to rows of 8, multiply "
        "by 1, 2, 4, … 128 and sum each row. Back: packed[:, None] & those eight numbers is "
        "not zero where the bit was set; cut off what was filled up.",
        "flat = (x > 0).reshape(-1); torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]) has "
        "the right length; sum with dtype=torch.uint8. In backward take [: ctx.shape.numel()], "
        "reshape to ctx.shape, and torch.where(positive, grad_output, slope * grad_output).",
    ),
    read='lesson 06, "Keep something smaller"',
    checks=(
        backward_is_a_formula,
        no_tensor_on_ctx,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x, slope: -(-x.numel() // 8), "one bit an element, rounded up to whole bytes"
        ),
    ),
    bounds="one bit an element is kept",
)

COUPLING = FunctionExercise(
    id="invertible-coupling",
    lesson=LESSON,
    title="A coupling that keeps its outputs",
    points=3,
    reference=coupling,
    samplers=HALVES,
    hints=(
        "You have y1 and y2. Which of the two lines of forward can be solved for its x at once, "
        "since everything else in it is known?",
        "x2 = y2 - tanh(y1 v). Now walk backward through forward's lines, the last one first. y1 "
        "is used twice, so its gradient collects twice before it goes on; and so is x2.",
        "b = tanh(y1 @ v); db = grad_y2 * (1 - b**2); add db @ v.t() to grad_y1. Then x2 = y2 - b, "
        "a = tanh(x2 @ w), da = (the new grad_y1) * (1 - a**2). The gradients: grad_y1, grad_y2 + "
        "da @ w.t(), x2.t() @ da, y1.t() @ db. You will not need x1.",
    ),
    read='lesson 06, "Invert instead of keeping"',
    checks=(
        backward_is_a_formula,
        no_tensor_on_ctx,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x1, x2, w, v: _bytes(x1, x2, w, v), "the two outputs and the two weights"
        ),
        forgets_the_halves,
        keeps_no_intermediate,
    ),
    bounds="of the activations only the outputs are kept",
)

CROSS_ENTROPY = FunctionExercise(
    id="chunked-row-losses",
    lesson=LESSON,
    title="A loss for each row, without the logits",
    points=4,
    reference=row_losses,
    samplers=ROWS,
    hints=(
        "Each row has a g of its own, which forward does not know yet. So what is forward to keep, "
        "in order that backward can compute the gradient of a chunk once more?",
        "x, weight, target, and for each row the log of the sum (torch.logsumexp): then "
        "softmax(z) = exp(z - that). Both methods have the same loop over chunks; "
        "the weight's gradient adds up over it, the rows of x's are written into their places.",
        "In backward, for a chunk: z = x[rows] @ weight.t(); p = torch.exp(z - log_sum[rows, "
        "None]); subtract 1 from p at target[rows]; multiply by grad_output[rows, None]. Then "
        "grad_x[rows] = p @ weight and grad_weight += p.t() @ x[rows].",
    ),
    read='lesson 06, "Never build it, and the price of being early"',
    checks=(
        backward_is_a_formula,
        no_tensor_on_ctx,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x, weight, target, chunk: _bytes(x, weight, target) + 2 * len(x) * x.itemsize,
            "the inputs, and two numbers for each row",
        ),
        never_builds_the_logits,
    ),
    bounds="the logits of no more than a few chunks exist at any moment",
)

EXERCISES: tuple[Exercise, ...] = (LINEAR_RELU, PACKED, COUPLING, CHECKPOINT, CROSS_ENTROPY)
