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

from autograd_course.exercises.lesson_08_attention_challenge._inputs import holes
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import Grads, mistaken


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


def _hidden_maximum(s: Tensor, mask: Tensor) -> Tensor:
    weights = torch.exp(s - s.amax(-1, keepdim=True)).masked_fill(~mask, 0.0)
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def _clamped_maximum(s: Tensor, mask: Tensor) -> Tensor:
    hidden = s.masked_fill(~mask, -math.inf)
    weights = torch.exp(hidden - hidden.amax(-1, keepdim=True).clamp(min=0))
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0)


def _uniform(s: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(s.masked_fill(~mask, -1e9), -1)


def _with(gradient: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a masked softmax whose backward is ``gradient(p, grad_output)``."""
    return mistaken(masked_softmax, lambda inputs, g: (gradient(masked_softmax(*inputs), g),))


def _zero(s: Tensor, mask: Tensor, *, again: bool) -> Tensor:
    """Set the hidden scores to 0. With ``again``, also set the hidden weights to 0."""
    p = torch.softmax(s * mask, -1)
    return p * mask if again else p


def _other_dim(s: Tensor, mask: Tensor) -> Tensor:
    return masked_softmax(s.mT, mask.mT).mT


def _exponentials(s: Tensor, mask: Tensor, *, shift: bool) -> Tensor:
    hidden = s.masked_fill(~mask, -math.inf)
    exponentials = torch.exp(hidden - hidden.amax() if shift else hidden)
    return exponentials / exponentials.sum(-1, keepdim=True)


def _undivided(s: Tensor, mask: Tensor) -> Tensor:
    return torch.exp(s) * mask


def _one_sum(s: Tensor, mask: Tensor) -> Tensor:
    exponentials = torch.exp(s) * mask
    return exponentials / exponentials.sum()


SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "You mask after the softmax, so the remaining weights no longer sum to 1. Mask the scores "
    "first.": _masked_late,
    "The mask is inverted: True means that the query sees the key.": _inverted,
    "The mask is added to the scores as 0 and 1, so it hides nothing. The hidden scores must be "
    "-∞.": lambda s, mask: torch.softmax(s + mask, -1),
    "The mask is added to the scores as 0 and 1, so the hidden scores take part in the sum of the "
    "softmax. They must be -∞.": lambda s, mask: torch.softmax(s + mask, -1) * mask,
    "The softmax runs over the queries. The weights of each query must sum to 1 over the keys, the "
    "last dim.": _other_dim,
    "The exponentials are not divided by their sum.": _undivided,
    "The exponentials are divided by the sum of the whole matrix. Divide each row by its own "
    "sum.": _one_sum,
    "In a fully masked row your result is nan, from 0 / 0 or from -∞ - (-∞). torch.softmax also "
    "returns nan there. Replace the masked weights by 0.": _unmasked_rows_nan,
    **{
        f"exp of a large score {told}. Subtract the largest score of each row first. torch.softmax "
        "does that.": suspect
        for told, suspect in (
            ("overflows", lambda s, mask: _exponentials(s, mask, shift=False)),
            ("is infinite", lambda s, mask: _exponentials(s, mask, shift=False) * mask),
            (
                "overflows to infinity",
                lambda s, mask: _exponentials(s, mask, shift=False).masked_fill(~mask, 0),
            ),
            (
                "overflows to infinity, and 0 times infinity is nan",
                lambda s, mask: (s.exp() * mask) / (s.exp() * mask).sum(-1, keepdim=True),
            ),
            (
                "overflows to infinity, and infinity divided by infinity is nan",
                lambda s, mask: (
                    (s.exp() * mask) / (s.exp() * mask).sum(-1, keepdim=True)
                ).masked_fill(~mask, 0),
            ),
        )
    },
    "The largest score that you subtract may be a hidden one. If it is far above the visible "
    "scores of its row, their exponentials are all 0. Mask the scores first.": _hidden_maximum,
    "You subtract the largest score of the whole matrix. If all scores of a row are far below it, "
    "their exponentials are all 0, and 0 / 0 is nan. Subtract the largest score of each row.": (
        lambda s, mask: _exponentials(s, mask, shift=True)
    ),
    "You subtract the largest score of the whole matrix. If all scores of a row are far below it, "
    "all exponentials of the row are 0, and 0 / 0 is nan. Subtract the largest score of each "
    "row.": lambda s, mask: _exponentials(s, mask, shift=True).masked_fill(~mask, 0),
    "You subtract the largest score of the whole matrix. If all scores of a row are far below it, "
    "their exponentials are all 0. Subtract the largest score of each row.": (
        lambda s, mask: _exponentials(s, mask, shift=True).nan_to_num(0.0)
    ),
    "You subtract 0 where the largest score of a row is negative. If all scores of a row are far "
    "below 0, their exponentials are all 0. Replace the largest score only if it is -∞.": (
        _clamped_maximum
    ),
    "In a fully masked row all scores are the same large negative number, so their softmax is "
    "uniform. Replace the masked weights by 0.": _uniform,
    "The hidden scores are 0, and exp(0) is 1, so they take part in the softmax. They must be "
    "-∞.": lambda s, mask: _zero(s, mask, again=False),
    "The hidden scores are 0, and exp(0) is 1, so they take part in the sum of the softmax. They "
    "must be -∞.": lambda s, mask: _zero(s, mask, again=True),
}


def _unmasked(inputs: Any, g: Tensor) -> Grads:
    p = torch.softmax(inputs[0], -1)
    return (p * (g - (p * g).sum(-1, keepdim=True)),)


GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "p · grad_output is only the diagonal of the Jacobian. If one score rises, the other weights "
    "of its row fall.": _with(lambda p, g: p * g),
    "p · (1 - p) is the derivative of each weight with respect to its own score. What about the "
    "other scores of the row?": _with(lambda p, g: p * (1 - p) * g),
    "p is missing as a factor: the gradient is p · (grad_output - D).": _with(
        lambda p, g: g - (p * g).sum(-1, keepdim=True)
    ),
    "D is added. If one score rises, the other weights of its row fall, so D must be subtracted.": (
        _with(lambda p, g: p * (g + (p * g).sum(-1, keepdim=True)))
    ),
    "D is the sum over the queries. The softmax couples the keys of one query, so sum over the "
    "keys, the last dim.": _with(lambda p, g: p * (g - (p * g).sum(-2, keepdim=True))),
    "D is the sum over the whole matrix. Each row has a sum of its own.": _with(
        lambda p, g: p * (g - (p * g).sum())
    ),
    "D is the mean over the row. It must be the sum.": _with(
        lambda p, g: p * (g - (p * g).mean(-1, keepdim=True))
    ),
    "D has lost its last dim, so you subtract it along the keys. It has one number for each query, "
    "so it must be a column: keepdim=True.": _with(lambda p, g: p * (g - (p * g).sum(-1))),
    "backward computes the softmax without the mask. Save the output of forward, which has zeros "
    "at the masked positions.": mistaken(masked_softmax, _unmasked),
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
        "scores in the thousands": lambda rng: (
            # The hidden scores are the largest. Row 0 sees only negative scores.
            1e3 * normal(rng, 4, 4) + 1e4 * ~holes(4, 4) - 1e4 * torch.eye(4)[:, :1].double(),
            holes(4, 4),
        ),
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
