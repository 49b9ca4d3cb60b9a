"""Lesson 08's patients who treat the gradient that arrives wrongly: its entries, its memory."""

import math

import torch
from torch import Tensor

from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.exercises.lesson_08_repair import repair
from autograd_course.grader.sampling import normal


def distance(x: Tensor, target: Tensor) -> Tensor:
    """Return half the squared distance of each row to its target."""
    return (x - target).square().sum(-1) / 2


def rotate(x: Tensor, angle: float) -> Tensor:
    """Return the points of the plane in the last axis, rotated counterclockwise."""
    c, s = math.cos(angle), math.sin(angle)
    a, b = x.unbind(-1)
    return torch.stack([c * a - s * b, s * a + c * b], -1)


REPAIRS: tuple[FunctionExercise, ...] = (
    repair(
        id="repair-distance",
        title="Repair: the word that mutes the sentence",
        reference=distance,
        samplers={
            "5 rows of 3": lambda rng: (normal(rng, 5, 3), normal(rng, 5, 3)),
            "one row": lambda rng: (normal(rng, 1, 4), normal(rng, 1, 4)),
            "two leading axes": lambda rng: (normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)),
            "a single vector": lambda rng: (normal(rng, 4), normal(rng, 4)),
        },
        hints=(
            "The owner's weights are the grad_output of this Function, one number a row. How many "
            "of them does backward use?",
            "Row i of x reaches the loss through y[i] alone, so it is multiplied by "
            "grad_output[i]. grad_output has one axis less than x: which one?",
            "g = grad_output.unsqueeze(-1), and the gradient of x is (x - target) * g.",
        ),
        read='lesson 08, "Step 5: gradcheck"',
        modeled_on="Liger-Kernel #968: the loss of every token, times the upstream gradient of "
        "the first",
    ),
    repair(
        id="repair-rotation",
        title="Repair: right until transposed",
        reference=rotate,
        samplers={
            "4×3 points": lambda rng: (normal(rng, 4, 3, 2), 0.7),
            "a row of points": lambda rng: (normal(rng, 5, 2), -2.0),
            "one point in a batch": lambda rng: (normal(rng, 1, 2), 0.3),
            "a single point": lambda rng: (normal(rng, 2), 1.2),
        },
        hints=(
            "The same numbers in another order in memory: who decides how grad_output lies there? "
            "Look for the line that reads memory in place of elements.",
            "as_strided((n, 2), (2, 1)) believes that the numbers lie row by row. After a "
            "transpose they do not, and after a sum they do not lie there at all. Ask for the "
            "order that you need, or do without it.",
            "grad_output @ turn(grad_output, -ctx.angle) works on any layout. A kernel that needs "
            "rows gets grad_output.contiguous(); clone() is no substitute, it keeps the order.",
        ),
        read='lesson 08, "What gradcheck does not ask"',
        modeled_on="flash-attention #355: wrong gradients whenever the gradient of the output "
        "was not contiguous",
    ),
)
