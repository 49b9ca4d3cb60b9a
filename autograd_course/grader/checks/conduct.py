"""How an answer goes about it: what it does to ctx, and who computes the gradient."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor import Finding
from autograd_course.doctor.running.operations import Recording, memory
from autograd_course.grader.checks.calling import applied, backward, found, node
from autograd_course.grader.exercise import Check

A_FEW = 8  # numbers that may lie on ctx: a shape, a slope, where the chunks begin


def no_tensor_on_ctx(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that tensors are kept by ``save_for_backward``, not as attributes of ``ctx``."""
    _, outputs = applied(function, inputs)
    for name, value in getattr(node(outputs), "__dict__", {}).items():
        if memory([value]):
            return found(
                "tensor-on-ctx",
                f"ctx.{name} holds a tensor that PyTorch does not know of: it is neither checked "
                "for later changes in place nor freed after backward.",
                {"attribute": name},
                "Hand tensors to ctx.save_for_backward; attributes of ctx are for numbers, shapes "
                "and flags.",
            )
    return None


def no_copy_on_ctx(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that no list and no array on ``ctx`` stands in for a tensor."""
    _, outputs = applied(function, inputs)
    for name, value in getattr(node(outputs), "__dict__", {}).items():
        if (count := _numbers(value)) > A_FEW:
            return found(
                "oversaved",
                f"ctx.{name} holds {count} numbers outside of any tensor. They wait for backward "
                "like a saved tensor, and count like one.",
                {"attribute": name, "numbers": count},
                "What has a number for each element of the data belongs to the budget, wherever it "
                "lies: keep it by ctx.save_for_backward, or do without.",
            )
    return None


def _numbers(value: Any) -> int:
    if isinstance(value, (np.ndarray, array)):
        return int(np.size(value))
    if isinstance(value, dict):
        return sum(map(_numbers, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(_numbers, value))
    return isinstance(value, (bool, int, float))


def no_gradient_through(position: int, name: str) -> Check:
    """Return a check that one of the outputs, known by ``name``, does not ask for a gradient."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        _, outputs = applied(function, inputs)
        if not outputs[position].requires_grad:
            return None
        return found(
            "wrong-non-differentiable",
            f"Output {position}, {name}, asks for a gradient, which backward never returns: a loss "
            f"that uses {name} gets a wrong one, and nobody is told.",
            {"position": position},
            f"ctx.mark_non_differentiable({name}) says that none comes through it.",
        )

    return check


def backward_is_a_formula(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that backward computes the gradient itself and does not let autograd do it.

    In an ordinary backward pass grad mode is off and nothing is saved for a further one; a backward
    that records operations of its own to differentiate them gives itself away by what it saves.
    """
    _, outputs = applied(function, inputs)
    recorded: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        recorded.append(tensor)
        return tensor

    try:
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            backward(outputs)
    except RuntimeError as error:  # torch.func differentiates too, and refuses hooks
        if "saved tensor hooks" not in str(error):
            raise
    else:
        if not recorded:
            return None
    return found(
        "unneeded-function",
        "backward records operations and lets autograd differentiate them: without the Function, "
        "autograd would do the same.",
        {},
        "Write down the derivative as a formula in the saved tensors and grad_output.",
    )


def without(*operations: str, use: str) -> Check:
    """Return a check that forward and backward run none of these operations.

    The operations that really run are watched, so another name for a built-in hides nothing:
    ``operations`` are PyTorch's own names of them (``gelu``, ``logsumexp``), in forward and
    backward. ``use`` says what to use in their place.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        with Recording() as recording:
            _, outputs = applied(function, inputs)
            backward(outputs)
        for name in recording.names:
            if name in operations:
                return found(
                    "unneeded-function",
                    f"The built-in {name} does the work; this exercise asks you to.",
                    {"operation": name},
                    f"Use {use}.",
                )
        return None

    return check
