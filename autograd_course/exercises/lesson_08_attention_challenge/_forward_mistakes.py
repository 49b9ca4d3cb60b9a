"""Common mistakes in attention's forward, each with the message that the grader shows."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from autograd_course.exercises.lesson_08_attention_challenge._references import attend, scores


def _over_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask), -2) @ v


def _unscaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask, 1.0), -1) @ v


def _scaled_twice(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask, 1 / q.shape[-1]), -1) @ v


def _unshifted(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, guarded: bool = True
) -> Tensor:
    s = scores(q, k, mask)
    return _soft(s, torch.zeros(()), guarded=guarded) @ v


def _literal_sum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute the log-sum-exp without subtracting a maximum, and replace -∞ in it with 0."""
    s = scores(q, k, mask)
    lse = s.exp().sum(-1, keepdim=True).log()
    return torch.exp(s - lse.masked_fill(lse == -math.inf, 0)) @ v


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


def _soft(s: Tensor, shift: Tensor, *, guarded: bool = True) -> Tensor:
    """Return a softmax that subtracts ``shift``. With ``guarded``, it divides by 1 instead of 0."""
    exponentials = torch.exp(s - shift.masked_fill(shift == -math.inf, 0))
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / (total.masked_fill(total == 0, 1) if guarded else total)


def _one_maximum(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, guarded: bool = True
) -> Tensor:
    s = scores(q, k, mask)
    return _soft(s, s.amax(), guarded=guarded) @ v


def _head_maximum(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, guarded: bool = True
) -> Tensor:
    s = scores(q, k, mask)
    return _soft(s, s.amax((-2, -1), keepdim=True), guarded=guarded) @ v


def _clamped_maximum(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, guarded: bool = True
) -> Tensor:
    s = scores(q, k, mask)
    return _soft(s, s.amax(-1, keepdim=True).clamp(min=0), guarded=guarded) @ v


def _column_maximum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    s = scores(q, k, mask)
    return _soft(s, s.amax(-2, keepdim=True)) @ v


def _one_sum(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    s = scores(q, k, mask)
    exponentials = torch.exp(s - s.amax(-1, keepdim=True))
    return exponentials / exponentials.sum() @ v


def _no_division(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    s = scores(q, k, mask)
    return torch.exp(s - s.amax(-1, keepdim=True)) @ v


def _scaled_by(size: Callable[[Tensor, Tensor, Tensor], float]) -> Callable[..., Tensor]:
    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.softmax(scores(q, k, mask, size(q, k, v)), -1) @ v

    return attention


def _mask_scaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None or mask.dtype == torch.bool:
        return attend(q, k, v, mask)
    return attend(q, k, v, mask / math.sqrt(q.shape[-1]))


def _mask_as_boolean(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None or mask.dtype == torch.bool:
        return attend(q, k, v, mask)
    return attend(q, k, v, mask > -math.inf)


def _zeros_hide(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(q, k, v, None if mask is None else mask.bool())


def _without_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(q, k, v)


def _only_boolean_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(q, k, v, mask if mask is not None and mask.dtype == torch.bool else None)


def _nan_for_numbers(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None or mask.dtype == torch.bool:
        return attend(q, k, v, mask)
    return torch.softmax(scores(q, k) + mask, -1) @ v


def _multiplied(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    s = scores(q, k)
    return torch.softmax(s if mask is None else s * mask, -1) @ v


SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The softmax runs over the queries. The weights of each query must sum to 1 over the keys, the "
    "last dim of the scores.": _over_queries,
    "The scores are not divided by √E.": _unscaled,
    "The scores are divided by E, not by its square root.": _scaled_twice,
    "The scores are multiplied by √E. Divide them by it.": _scaled_by(
        lambda q, k, v: math.sqrt(q.shape[-1])
    ),
    "The scores are divided by the root of the length of a sequence. E is the size of the last "
    "dim of q, the number of features.": _scaled_by(lambda q, k, v: k.shape[-2] ** -0.5),
    "The scores are divided by the root of the size of v's last dim. E is the size of the last dim "
    "of q.": _scaled_by(lambda q, k, v: v.shape[-1] ** -0.5),
    "The exponentials are divided by the sum of the whole matrix. The weights of each query must "
    "sum to 1, so divide each row by its own sum.": _one_sum,
    "The exponentials are not divided by their sum. The weights of each query must sum to 1.": (
        _no_division
    ),
    "You subtract the largest score of each column. Then the numbers in a row are shifted by "
    "different amounts. Subtract one number from each row.": _column_maximum,
    "The mask has no effect. The result is the same as without a mask.": _without_mask,
    "A floating-point mask has no effect. Add it to the scores.": _only_boolean_mask,
    "The floating-point mask is read as a boolean one, so it hides the keys where it is 0. Its "
    "numbers must be added to the scores.": _zeros_hide,
    "A floating-point mask can hide all keys of a query too. The softmax of a row of -∞ is nan. "
    "The output of such a query must be 0, whatever the dtype of the mask.": _nan_for_numbers,
    "The scores are multiplied by the mask. A hidden key gets the score 0, and exp(0) is 1, so it "
    "still has a weight. Its score must be -∞.": _multiplied,
    "The floating-point mask is also divided by √E. Divide the scores first, and add the mask "
    "afterwards.": _mask_scaled,
    "The floating-point mask hides keys, but its finite numbers are ignored. Add the mask to the "
    "scores.": _mask_as_boolean,
    "You mask after the softmax, so the remaining weights no longer sum to 1. Mask the scores "
    "instead.": _masked_late,
    "The boolean mask is inverted: True means that the query sees the key.": _inverted,
    "The boolean mask is added to the scores as 0 and 1. It must hide the keys where it is "
    "False.": _added,
    "A large negative number hides nothing if all scores of a row have it, because the softmax of "
    "equal scores is uniform. What should the weights of this row be?": _hardly_masked,
    "In a fully masked row the largest score is -∞, and -∞ - (-∞) is nan. What can you subtract "
    "there so that the exponentials are 0?": _masked_rows_nan,
    "You subtract the largest score of the whole matrix. If all scores of a row are far below it, "
    "their exponentials are all 0. Subtract the largest score of each row.": _one_maximum,
    "You subtract the largest score of the whole matrix. If all scores of a row are far below it, "
    "their exponentials are all 0, and 0 / 0 is nan. Subtract the largest score of each row.": (
        partial(_one_maximum, guarded=False)
    ),
    "You subtract the largest score of each head. If all scores of a row are far below it, their "
    "exponentials are all 0. Subtract the largest score of each row.": _head_maximum,
    "You subtract the largest score of each head. If all scores of a row are far below it, their "
    "exponentials are all 0, and 0 / 0 is nan. Subtract the largest score of each row.": (
        partial(_head_maximum, guarded=False)
    ),
    "You subtract 0 where the largest score of a row is negative. If all scores of a row are far "
    "below 0, their exponentials are all 0. Replace the largest score only if it is -∞.": (
        _clamped_maximum
    ),
    "You subtract 0 where the largest score of a row is negative. If all scores of a row are far "
    "below 0, their exponentials are all 0, and 0 / 0 is nan. Replace the largest score only if it "
    "is -∞.": partial(_clamped_maximum, guarded=False),
    "exp of a large score overflows. Which number can you subtract from all scores of a row "
    "without changing its softmax?": _unshifted,
    "exp of a large score overflows, so the log-sum-exp is ∞, and all weights become 0. Subtract "
    "the largest score of a row before exp, and add it after the logarithm.": _literal_sum,
    "exp of a large score overflows, and the sum is 0 if all scores are far below 0. Which number "
    "can you subtract from all scores of a row without changing its softmax?": partial(
        _unshifted, guarded=False
    ),
}
