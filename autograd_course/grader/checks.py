"""What single exercises ask beyond right gradients: ``(Function, inputs) -> Finding | None``."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor import RULES, Finding
from autograd_course.doctor.running.calls import as_tuple
from autograd_course.doctor.running.operations import memory
from autograd_course.grader.exercise import Check
from autograd_course.grader.passes import applied, differentiable


def no_tensor_on_ctx(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that tensors are kept by ``save_for_backward``, not as attributes of ``ctx``."""
    _, outputs = _applied(function, inputs)
    for name, value in vars(outputs[0].grad_fn).items():
        if memory([value]):
            return _found(
                "tensor-on-ctx",
                f"ctx.{name} holds a tensor that PyTorch does not know of: it is neither checked "
                "for later changes in place nor freed after backward.",
                {"attribute": name},
                "Hand tensors to ctx.save_for_backward; attributes of ctx are for numbers, shapes "
                "and flags.",
            )
    return None


def saves_only_outputs(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that every saved tensor is one of the outputs, so that nothing else is kept alive."""
    given, outputs = _applied(function, inputs)
    returned = {_storage(output) for output in outputs}
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is None or _storage(saved) in returned:
            continue
        kept = "the input" if _storage(saved) in map(_storage, given) else "an intermediate result"
        return _found(
            "oversaved",
            f"Saved tensor number {position} is {kept}; this exercise allows the output only.",
            {"position": position, "kept": kept, "shape": tuple(saved.shape)},
            "Write the derivative as a function of the output y, then save y itself: the very "
            "tensor that forward returns.",
        )
    return None


def backward_is_a_formula(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that backward computes the gradient itself and does not let autograd do it.

    In an ordinary backward pass grad mode is off and nothing is saved for a further one; a backward
    that records operations of its own to differentiate them gives itself away by what it saves.
    """
    _, outputs = _applied(function, inputs)
    recorded: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        recorded.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        torch.autograd.backward(outputs, [torch.ones_like(out) for out in outputs])
    if not recorded:
        return None
    return _found(
        "unneeded-function",
        "backward records operations and lets autograd differentiate them: without the Function, "
        "autograd would do the same.",
        {},
        "Write down the derivative as a formula in the saved tensors and grad_output.",
    )


def slope_within(low: float, high: float, at: float) -> Check:
    """Return a check that the gradient at a kink is a slope between those of its two sides."""

    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        got = float(_gradient(function.apply, (torch.tensor([at], dtype=torch.float64),))[1])
        if low <= got <= high:
            return None
        return _off_convention(f"any slope from {low:g} to {high:g}", at, got)

    return check


def gradient_at(reference: Any, *inputs: Any) -> Check:
    """Return a check that asks for the reference's own gradient at ``inputs``: on its kinks."""
    names = list(inspect.signature(reference).parameters)[1:]
    given = ", ".join(f"{name} {value:g}" for name, value in zip(names, inputs[1:], strict=False))
    others = f" (with {given})" if given else ""

    def check(function: type[Function], example: tuple[Any, ...]) -> Finding | None:
        points, expected = _gradient(reference, inputs)
        actual = _gradient(function.apply, inputs)[1]
        for at, right, got in zip(*(t.tolist() for t in (points, expected, actual)), strict=True):
            if right != got:
                return _off_convention(f"{right:g}{others}", at, got)
        return None

    return check


def _off_convention(asked: str, at: float, got: float) -> Finding:
    return _found(
        "kink-convention",
        f"at exactly x = {at:g} the gradient is {got:g}; this exercise asks for {asked} there. "
        "Everywhere else it is right.",
        {"at": at, "actual": got},
        "At a kink no derivative exists, so the author chooses. What does your formula give "
        "there, and is every comparison in it meant to include the bound?",
    )


def _found(rule: str, message: str, evidence: dict[str, Any], hint: str) -> Finding:
    """Return a finding under one of the doctor's rules, with a hint of the exercise's own."""
    known = RULES[rule]
    return Finding(rule, known.severity, message, evidence, hint, known.lesson)


def _applied(
    function: type[Function], inputs: tuple[Any, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors given and the tensors returned by one call."""
    given = differentiable(inputs)
    outputs = [out for out in as_tuple(applied(function, given)) if isinstance(out, Tensor)]
    return [tensor for tensor in given if isinstance(tensor, Tensor)], outputs


def _gradient(call: Any, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Return the first input, a vector, and the gradient of the summed output there."""
    given = differentiable(inputs)
    (gradient,) = torch.autograd.grad(call(*given).sum(), given[0])
    return given[0].detach(), gradient


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
