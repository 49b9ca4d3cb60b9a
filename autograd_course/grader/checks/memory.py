"""Checks that limit the memory that an answer keeps for backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import Kept, kept_tensors, peak_bytes, storage_keys
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import Computed, differentiable
from autograd_course.grader.checks.calling import (
    Followed,
    applied,
    filled,
    found,
    node,
    storage,
)
from autograd_course.grader.checks.conduct import copy_on_ctx, no_copy_on_ctx
from autograd_course.grader.checks.holding import A_FEW
from autograd_course.grader.checks.lasting import nothing_outlives_the_call as elsewhere
from autograd_course.grader.checks.operators import seen_inside
from autograd_course.grader.exercise import Check, with_peak

MANY = (40, 10)  # the shape of a tensor with more numbers than a small ``ctx`` can hide
LISTED = 6  # a message lists at most this many tensors of one kind
_MORE_DIMS, _MORE_SAVED = 2, 32  # more than the inputs have; more of them can hold data


def saves_only_outputs(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Require autograd to save only outputs, so that no additional tensor stays in memory.

    A saved tensor keeps its whole storage in memory, so the storage must not be larger than the
    outputs that use it.
    """
    given, outputs = applied(function, inputs)
    returned = {storage(output) for output in outputs}
    allowed = filled(outputs) | (returned & filled(given))
    for position, saved in enumerate(getattr(node(outputs), "saved_tensors", ())):
        if saved is None or storage(saved) in allowed:
            continue
        if storage(saved) in returned:
            size, needed = saved.untyped_storage().nbytes(), saved.nbytes
            return found(
                "oversaved",
                f"Saved tensor {position} is a view of a larger tensor, so {size:,} bytes stay in "
                f"memory instead of {needed:,}.",
                {"position": position, "kept": "a larger tensor", "shape": tuple(saved.shape)},
                "Let `forward` return a tensor with memory of its own, for example a clone of the "
                "view, and save this tensor.",
            )
        kept = "the input" if storage(saved) in map(storage, given) else "an intermediate result"
        return found(
            "oversaved",
            f"Saved tensor {position} is {kept}. This exercise allows only the output.",
            {"position": position, "kept": kept, "shape": tuple(saved.shape)},
            "Write the derivative as a function of the output y. Then save y itself, the same "
            "tensor object that `forward` returns.",
        )
    return odd_metadata(node(outputs), inputs) or no_copy_on_ctx(function, inputs)


def odd_metadata(ctx: Any, inputs: Iterable[Any]) -> Finding | None:
    """Find saved tensors whose number, sizes or strides can hold data that no storage contains."""
    saved = tuple(getattr(ctx, "saved_tensors", ()))
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    dims = max((value.dim() for value in tensors), default=0) + _MORE_DIMS
    problem = f"{len(saved)} tensors are saved" if len(saved) > len(tensors) + _MORE_SAVED else ""
    for position, value in enumerate(saved):
        if not isinstance(value, Tensor):
            continue
        if not storage_keys(value):
            problem = f"saved tensor {position} has the layout {value.layout}"
        if value.layout != torch.strided:
            continue
        elements = value.untyped_storage().nbytes() // value.element_size()
        free = (step for n, step in zip(value.shape, value.stride(), strict=True) if n < 2)
        if value.dim() > dims:
            problem = f"saved tensor {position} has {value.dim()} dims"
        elif value.dim() > 1 and not value.numel() and all(map(Tensor.numel, tensors)):
            problem = f"saved tensor {position} has no elements, but {value.dim()} dims"
        elif any(step > max(elements, 1) for step in free):
            problem = f"saved tensor {position} has a stride that is longer than its memory"
    if not problem:
        return None
    return found(
        "oversaved",
        f"For these inputs, {problem}. This can hold data that the grader does not see.",
        {"saved": len(saved)},
        "Save the few tensors that `backward` needs, as they are.",
    )


def keeps_at_most(budget: Callable[..., int], told: str) -> Check:
    """Return a check that fails if autograd saves more than ``budget`` bytes for backward.

    ``budget`` is a callable that takes the arguments of forward and returns a number of bytes.
    ``told`` describes the budget in words. The check adds up the storages that stay in memory until
    backward: those of saved tensors and of attributes of ``ctx``. It counts each storage once. More
    than a few numbers outside of any tensor count too, even if they are bytes or in a list.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | Computed:
        followed = Followed(function.apply, inputs)
        kept = kept_tensors(followed, *differentiable(inputs))
        total, allowed = sum(item.bytes for item in kept), budget(*inputs)
        if total <= allowed:
            if odd := odd_metadata(followed.ctx, inputs):
                return odd
            smallest = min(it.numel() for it in inputs if isinstance(it, Tensor))
            most = max(A_FEW, smallest // 8)
            if copy := copy_on_ctx(followed.ctx, inputs, most) or elsewhere(function, inputs):
                return copy
            followed.backward()
            return followed.computed()
        largest = kept[0]
        return found(
            "oversaved",
            f"{total:,} bytes are saved for `backward`. This exercise allows {allowed:,}: {told}.",
            {"bytes": total, "budget": allowed, "largest": largest.shape},
            f"{_listed(kept)} {_question(kept, total - allowed)}",
        )

    return check


def _question(kept: Sequence[Kept], excess: int) -> str:
    """Ask which tensors to omit, or suggest a smaller dtype if that would be enough."""
    wide = [item for item in kept if not item.anyway and item.dtype != torch.bool]
    if wide and excess <= sum(item.bytes - math.prod(item.shape) for item in wide):
        name, size = str(wide[0].dtype).removeprefix("torch."), wide[0].dtype.itemsize
        if len(wide) > 1 and all(item.dtype.is_floating_point for item in wide):
            return "Can `backward` compute one of them from the others?"
        if wide[0].dtype.is_floating_point:
            return (
                f"{name} takes {size} bytes for each number. If there are only two different "
                "numbers, torch.bool is enough, which takes 1 byte."
            )
        return (
            f"{name} takes {size} bytes for each number. Is a smaller dtype enough? The sum of a "
            "uint8 tensor is int64, unless you pass dtype=torch.uint8."
        )
    return "Which of them does `backward` not need, or can it recompute from something smaller?"


def _listed(kept: Sequence[Kept]) -> str:
    """Describe the saved tensors, starting with those that forward creates."""
    made = _shapes([item for item in kept if not item.anyway])
    given = _shapes([item for item in kept if item.anyway])
    return f"Saved tensors that `forward` creates: {made}. Saved inputs: {given}."


def _shapes(kept: Sequence[Kept]) -> str:
    told = [f"{str(item.dtype).removeprefix('torch.')} {item.shape}" for item in kept[:LISTED]]
    more = [f"{len(kept) - LISTED} more"] if len(kept) > LISTED else []
    return ", ".join((*told, *more)) or "nothing"


def peaks_at_most(budget: Callable[..., int], told: str, backward: bool = True) -> Check:
    """Return a check that fails if forward or backward uses more than ``budget`` bytes of memory.

    ``budget`` and ``told`` have the same meaning as in :func:`keeps_at_most`. The check counts the
    tensors that the two passes create: intermediate results, outputs and gradients. It does not
    count the inputs. With ``backward=False``, the check runs only forward.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | Computed:
        followed = Followed(function.apply, inputs)
        peak = peak_bytes(followed, *differentiable(inputs), backward=backward)
        allowed = budget(*inputs)
        if peak <= allowed:
            if not backward:
                followed.backward()
            return followed.computed(of_ones=backward)
        passes = "`forward` and `backward` need" if backward else "`forward` needs"
        return found(
            "oversaved",
            f"{passes} {peak:,} bytes at once. This exercise allows {allowed:,}: {told}.",
            {"bytes": peak, "budget": allowed},
            "Which tensors exist at the same moment? If one of them is large, compute it in parts. "
            "If a list keeps one for each part, add each part to a sum at once.",
        )

    return with_peak(seen_inside(check))
