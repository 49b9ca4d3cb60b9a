"""Helpers for the checks, for example for calling an answer or creating a finding."""

from __future__ import annotations

from typing import Any

import torch
from autograd_doctor import RULES, Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.engine import run_backward
from autograd_course.execution import applied as called
from autograd_course.execution import differentiable


def found(rule: str, message: str, evidence: dict[str, Any], hint: str) -> Finding:
    """Return a finding under one of the doctor's rules, with the exercise's own hint."""
    known = RULES[rule]
    return Finding(rule, known.severity, message, evidence, hint, known.lesson)


def applied(function: type[Function], inputs: tuple[Any, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """Call an answer once. Return its input tensors and its output tensors."""
    given = differentiable(inputs)
    outputs = [out for out in as_tuple(called(function, given)) if isinstance(out, Tensor)]
    return [tensor for tensor in given if isinstance(tensor, Tensor)], outputs


def backward(outputs: list[Tensor]) -> None:
    """Run backward from every output that can have a gradient. Indices and masks cannot."""
    wanted = [out for out in outputs if out.requires_grad]
    if wanted:
        run_backward(wanted, [torch.ones_like(out) for out in wanted])


def node(outputs: list[Tensor]) -> Any:
    """Return the Function's graph node, which is its ctx, or ``None`` if no output has a graph."""
    return next((out.grad_fn for out in outputs if out.grad_fn is not None), None)


def storage(tensor: Tensor) -> int:
    """Return a key that is the same for all tensors that share memory."""
    return tensor.untyped_storage().data_ptr()


def farthest(came: Tensor, right: Tensor) -> tuple[float, float]:
    """Return the elements of two tensors at the index where they differ most."""
    at = int((came - right).abs().argmax())
    return float(came.flatten()[at]), float(right.flatten()[at])
