"""What an answer keeps for backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor import Finding
from autograd_course.grader.checks.calling import applied, found, node, storage
from autograd_course.grader.exercise import Check


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
    Counted is the memory of all saved tensors, each once, also of the inputs and outputs.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        kept: dict[int, Tensor] = {}

        def pack(tensor: Tensor) -> Tensor:
            kept[storage(tensor)] = tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            applied(function, inputs)
        total, allowed = sum(map(_bytes, kept.values())), budget(*inputs)
        if total <= allowed:
            return None
        largest = max(kept.values(), key=_bytes)
        return found(
            "oversaved",
            f"{total:,} bytes are kept for backward; this exercise allows {allowed:,}: {told}.",
            {"bytes": total, "budget": allowed, "largest": tuple(largest.shape)},
            f"The largest saved tensor has shape {tuple(largest.shape)} and {_bytes(largest):,} "
            "bytes. Can backward do without it, or rebuild it from something smaller?",
        )

    return check


def _bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()
