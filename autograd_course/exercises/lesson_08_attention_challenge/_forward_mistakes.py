"""Common mistakes in the forward of attention, each with the message that the grader shows."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from autograd_course.exercises.lesson_08_attention_challenge._references import attend, scores


def _over_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask), -2) @ v


def _unscaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask, 1.0), -1) @ v


def _scaled_twice(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask, 1 / q.shape[-1]), -1) @ v


def _unshifted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    exponentials = scores(q, k, mask).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ v


def _masked_rows_nan(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask), -1) @ v


def _masked_late(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    p = torch.softmax(scores(q, k), -1)
    if mask is None:
        return p @ v
    return (p * mask if mask.dtype == torch.bool else p + mask) @ v


def _inverted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    boolean = mask is not None and mask.dtype == torch.bool
    return torch.softmax(scores(q, k, ~mask if boolean and mask is not None else mask), -1) @ v


def _hardly_masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None or mask.dtype != torch.bool:
        return attend(q, k, v, None if mask is None else mask.clamp(min=-1e9))
    return torch.softmax(scores(q, k).masked_fill(~mask, -1e9), -1) @ v


def _added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(q, k, v, None if mask is None else mask.to(q.dtype))


SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The softmax runs over the queries. The weights of each query must sum to 1 over the keys, the "
    "last dim of the scores.": _over_queries,
    "The scores are not divided by √E.": _unscaled,
    "The scores are divided by E, not by its square root.": _scaled_twice,
    "You mask after the softmax, so the remaining weights no longer sum to 1. Mask the scores "
    "instead.": _masked_late,
    "The boolean mask is inverted: True means that the query sees the key.": _inverted,
    "The boolean mask is added to the scores as 0 and 1. It must hide the keys where it is "
    "False.": _added,
    "A large negative number hides nothing if all scores of a row have it, because the softmax of "
    "equal scores is uniform. What should the weights of this row be?": _hardly_masked,
    "In a fully masked row the largest score is -∞, and -∞ - (-∞) is nan. What can you subtract "
    "there so that the exponentials are 0?": _masked_rows_nan,
    "exp of a large score overflows. Which number can you subtract from all scores of a row "
    "without changing its softmax?": _unshifted,
}
