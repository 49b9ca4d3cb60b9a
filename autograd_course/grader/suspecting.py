"""Build suspects for ``gradient_suspects``, and call ``backward`` directly.

A suspect is a callable that returns the right values but has one common mistake in its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.grader.checks.calling import applied, node

Grads = tuple[Tensor, ...]


def mistaken(right: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a suspect that combines the values of ``right`` with a wrong ``backward``.

    ``backward`` takes a tuple of all inputs, and then the gradient of each output. It returns
    gradients for the first inputs. The gradient of each remaining input is ``None``.
    """

    class Mistaken(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.inputs = tuple(it.detach() if isinstance(it, Tensor) else it for it in inputs)
            return right(*ctx.inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            found = as_tuple(backward(ctx.inputs, *grads))
            return *found, *[None] * (len(ctx.inputs) - len(found))

    call: Callable[..., Any] = Mistaken.apply
    return call


def returning(right: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same as :func:`mistaken`, for a ``backward`` with the inputs as separate arguments."""
    return mistaken(right, lambda inputs, *grads: backward(*inputs, *grads))


def returned_by(function: type[Function], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what ``backward`` itself returns if all upstream gradients are ones."""
    _, outputs = applied(function, inputs)
    return as_tuple(function.backward(node(outputs), *map(torch.ones_like, outputs)))
