"""The arguments of a measured call: copies, so that the caller's own tensors stay as they are."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


def fresh_leaves(inputs: Sequence[Any]) -> list[Any]:
    """Copy the arguments: tensors that can have a gradient become new leaves that ask for one.

    Where the caller's own tensors say which of them need a gradient, that choice is kept. A tensor
    that is given twice is copied once: its gradient collects from both uses.
    """
    eligible = [x for x in inputs if isinstance(x, Tensor) and differentiable(x)]
    chosen = {id(x) for x in eligible if x.requires_grad} or {id(x) for x in eligible}
    copies = {
        id(x): x.detach().clone().requires_grad_(id(x) in chosen)
        for x in inputs
        if isinstance(x, Tensor)
    }
    return [copies.get(id(x), x) for x in inputs]


def differentiable(tensor: Tensor) -> bool:
    """Whether a tensor's dtype allows a gradient."""
    return tensor.is_floating_point() or tensor.is_complex()
