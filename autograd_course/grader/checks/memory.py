"""What an answer keeps for backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd import Function

from autograd_course.doctor import Finding
from autograd_course.grader.checks.calling import applied, found, node, storage
from autograd_course.grader.exercise import Check
from autograd_course.grader.judging.passes import differentiable
from autograd_course.measure import kept_tensors, peak_bytes


def saves_only_outputs(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that every saved tensor is one of the outputs, so that nothing else is kept alive."""
    given, outputs = applied(function, inputs)
    returned = {storage(output) for output in outputs}
    for position, saved in enumerate(getattr(node(outputs), "saved_tensors", ())):
        if saved is None or storage(saved) in returned:
            continue
        kept = "the input" if storage(saved) in map(storage, given) else "an intermediate result"
        return found(
            "oversaved",
            f"Saved tensor number {position} is {kept}; this exercise allows the output only.",
            {"position": position, "kept": kept, "shape": tuple(saved.shape)},
            "Write the derivative as a function of the output y, then save y itself: the very "
            "tensor that forward returns.",
        )
    return None


def keeps_at_most(budget: Callable[..., int], told: str) -> Check:
    """Return a check that autograd keeps no more bytes for backward than a budget.

    ``budget`` takes forward's arguments and returns bytes; ``told`` says in words what it allows.
    Counted is all memory that lives until backward, each storage once: saved inputs and outputs,
    and what lies on ``ctx``.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        kept = kept_tensors(function, *differentiable(inputs))
        total, allowed = sum(item.bytes for item in kept), budget(*inputs)
        if total <= allowed:
            return None
        largest = kept[0]
        return found(
            "oversaved",
            f"{total:,} bytes are kept for backward; this exercise allows {allowed:,}: {told}.",
            {"bytes": total, "budget": allowed, "largest": largest.shape},
            f"The largest saved tensor has shape {largest.shape}, dtype {largest.dtype} and "
            f"{largest.bytes:,} bytes. Can backward do without it, or rebuild it from something "
            "smaller?",
        )

    return check


def peaks_at_most(budget: Callable[..., int], told: str, backward: bool = True) -> Check:
    """Return a check that no more bytes than a budget are alive at once in forward and backward.

    ``budget`` and ``told`` are as for :func:`keeps_at_most`. Counted is what the two passes make:
    intermediate results, outputs and gradients, not the inputs. ``backward=False`` looks at forward
    alone.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        peak = peak_bytes(function, *differentiable(inputs), backward=backward)
        allowed = budget(*inputs)
        if peak <= allowed:
            return None
        passes = "forward and backward need" if backward else "forward needs"
        return found(
            "oversaved",
            f"{passes} {peak:,} bytes at once; this exercise allows {allowed:,}: {told}.",
            {"bytes": peak, "budget": allowed},
            "Which tensor is the largest that exists at any moment? Can the work be done on a part "
            "of it at a time, so that the whole is never there?",
        )

    return check
