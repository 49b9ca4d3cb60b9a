"""Helpers for the arguments and results of calls to a learner's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.autograd import Function


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """Return the result of a call as a tuple. Wrap a single output in a one-element tuple."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def is_float(value: Any) -> bool:
    """Return whether a value is a floating-point or complex tensor, which can have a gradient."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def takes_ctx(function: type[Function]) -> bool:
    """Return whether ``forward`` takes ``ctx``, as in Functions without a ``setup_context``."""
    return function.setup_context is Function.setup_context


def differentiated(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the float tensors that require grad, or of all of them if none do."""
    floating = [place for place, value in enumerate(inputs) if is_float(value)]
    asking = [place for place in floating if inputs[place].requires_grad]
    return tuple(asking or floating)
