"""Build suspects for ``gradient_suspects``, and look at what ``backward`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.grader.checks.calling import applied, node


def returning(reference: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a suspect with the values of ``reference`` and the gradients of a mistake.

    ``backward`` takes the inputs and then the gradient of each output. It returns the gradients of
    the first inputs. The other inputs get none.
    """

    class Suspect(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.inputs = tuple(it.detach() if isinstance(it, Tensor) else it for it in inputs)
            return reference(*ctx.inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            gradients = as_tuple(backward(*ctx.inputs, *grads))
            return (*gradients, *[None] * (len(ctx.inputs) - len(gradients)))

    def suspect(*inputs: Any) -> Any:
        return Suspect.apply(*inputs)  # type: ignore[no-untyped-call]

    return suspect


def returned_by(function: type[Function], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what ``backward`` itself returns for gradients of ones."""
    _, outputs = applied(function, inputs)
    return as_tuple(function.backward(node(outputs), *map(torch.ones_like, outputs)))
