"""Masked softmax

1. Set the masked scores to -∞ and call torch.softmax. What does it return for a fully masked row,
   and which values should this row have?
2. After the softmax, replace all masked weights by 0. Backward needs only the weights. If you save
   the output of forward, it contains no nan.
3. forward: p = softmax of s.masked_fill(~mask, -inf), then p.masked_fill(~mask, 0). Save the
   output. backward: p · (grad_output - D), where D = (p · grad_output).sum(-1, keepdim=True), and
   None for the mask.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_08_attention_challenge._inputs import holes
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def masked_softmax(s: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax of each row over the scores where ``mask`` is True, with 0 elsewhere."""
    empty = ~mask.any(-1, keepdim=True)
    hidden = s + torch.where(mask | empty, 0.0, -math.inf)
    return torch.softmax(hidden, -1) * ~empty


def _masked_late(s: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(s, -1) * mask


def _inverted(s: Tensor, mask: Tensor) -> Tensor:
    return masked_softmax(s, ~mask)


def _unmasked_rows_nan(s: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(s.masked_fill(~mask, -math.inf), -1)


def _uniform(s: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(s.masked_fill(~mask, -1e9), -1)


def _with(gradient: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a masked softmax whose backward is ``gradient(p, grad_output)``."""

    class Mistaken(Function):
        @staticmethod
        def forward(ctx: Any, s: Tensor, mask: Tensor) -> Tensor:
            p = masked_softmax(s, mask)
            ctx.save_for_backward(p)
            return p

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
            (p,) = ctx.saved_tensors
            return gradient(p, grad_output), None

    call: Callable[..., Any] = Mistaken.apply
    return call


SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "You mask after the softmax, so the remaining weights no longer sum to 1. Mask the scores "
    "first.": _masked_late,
    "The mask is inverted: True means that the query sees the key.": _inverted,
    "torch.softmax returns nan for a fully masked row. Replace the masked weights by 0.": (
        _unmasked_rows_nan
    ),
    "In a fully masked row all scores are the same large negative number, so their softmax is "
    "uniform. Replace the masked weights by 0.": _uniform,
}
GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "p · grad_output is only the diagonal of the Jacobian. If one score rises, the other weights "
    "of its row fall.": _with(lambda p, g: p * g),
    "p · (1 - p) is the derivative of each weight with respect to its own score. What about the "
    "other scores of the row?": _with(lambda p, g: p * (1 - p) * g),
    "D is the sum of grad_output over the row, without the weights. It should be the sum of p · "
    "grad_output.": _with(lambda p, g: p * (g - g.sum(-1, keepdim=True))),
}

EXERCISE = FunctionExercise(
    answer="MaskedSoftmax",
    points=1,
    difficulty="easy",
    minutes=8,
    section="Backward, one product at a time",
    reference=masked_softmax,
    samplers={
        "4 queries, 4 keys": lambda rng: (normal(rng, 4, 4), holes(4, 4)),
        "a fully masked row": lambda rng: (normal(rng, 4, 3), holes(4, 3, empty=1)),
        "two heads, one query, nothing masked": lambda rng: (
            normal(rng, 2, 1, 5),
            torch.ones(2, 1, 5, dtype=torch.bool),
        ),
    },
    suspects=SUSPECTS,
    gradient_suspects=GRADIENTS,
    checks=CONDUCT,
)
