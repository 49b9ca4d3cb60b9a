"""The arguments and the result of a call to an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.autograd import Function


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """Return a call's result as a tuple of outputs."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def is_float(value: Any) -> bool:
    """Whether a value is a tensor that can have a gradient."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def takes_ctx(function: type[Function]) -> bool:
    """Whether ``forward`` itself takes ctx, so that there is no ``setup_context``."""
    return function.setup_context is Function.setup_context


def differentiated(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the tensors that require grad, or of all tensors if none does."""
    floating = [place for place, value in enumerate(inputs) if is_float(value)]
    asking = [place for place in floating if inputs[place].requires_grad]
    return tuple(asking or floating)
