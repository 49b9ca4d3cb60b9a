"""A tensor that is not the doctor's: given other memory for a while, and then its own again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from autograd_course.doctor.running.calls import is_float, is_wrapped, same_bytes

DOUBLE = torch.float64


class Held:
    """A tensor that is reached, how it was, and whether a module owns it: as a buffer or not."""

    def __init__(self, name: str, tensor: Tensor, *, parameter: bool, buffer: bool) -> None:
        self.name, self.tensor = name, tensor
        self.parameter, self.buffer = parameter, buffer
        self.data, self.grad, self.asks = tensor.data, tensor.grad, tensor.requires_grad
        self._version = -1  # of the tensor, when it was given its values

    def begin(self, precision: torch.dtype | None) -> None:
        """Give the tensor the values it had, in memory of its own, and no gradient.

        ``precision`` is that of the arguments beside it; ``None`` leaves the tensor its own.
        """
        tensor = self.tensor
        self._be_leaf()
        dtype = self._dtype(precision) if precision else self.data.dtype
        tensor.grad = None
        # A buffer may be changed through .data, which no version tells of.
        changed = tensor.dtype != dtype or tensor._version != self._version
        if changed or (self.buffer and not same_bytes(tensor.data, self.data.to(dtype))):
            tensor.data = self.data.to(dtype, copy=True)
            tensor.requires_grad_(self.asks)
            self._version = tensor._version

    def pass_in(self, value: Tensor) -> None:
        """Let the tensor have an argument's value in this call, and ask for a gradient as that."""
        self.tensor.data = value.detach()
        self.tensor.requires_grad_(value.requires_grad)
        self._version = -1

    @contextmanager
    def instead(self, value: Tensor) -> Iterator[None]:
        """Let every call in a block start from another value."""
        own = self.data
        self.data, self._version = value, -1
        try:
            yield
        finally:
            self.data, self._version = own, -1

    def _be_leaf(self) -> None:
        """Take the tensor out of a graph: a Function that returns it has made it a result."""
        if not self.tensor.is_leaf:
            self.tensor.detach_()

    def _dtype(self, precision: torch.dtype) -> torch.dtype:
        """Return the dtype to have beside arguments of a precision, float64 being the doctor's.

        A module moves along with them, as ``module.to(dtype)`` would; other tensors stay.
        """
        own = self.data.dtype
        if not is_float(self.data) or not (self.parameter or self.buffer or precision is DOUBLE):
            return own
        if own.is_complex:
            return torch.complex128 if precision is DOUBLE else torch.complex64
        return precision

    def put_back(self) -> None:
        """Give the tensor its own memory back, bit for bit, and its gradient."""
        self._be_leaf()
        self.tensor.data = self.data
        self.tensor.requires_grad_(self.asks)
        self.tensor.grad = self.grad


def can_be_lent(thing: Any) -> bool:
    """Whether a thing is a tensor that can have other memory for a while."""
    return (
        type(thing) in (Tensor, nn.Parameter)
        and thing.layout is torch.strided
        and thing.is_leaf
        and not (thing.is_meta or thing.is_quantized or thing.is_inference())
        and not is_wrapped(thing)
    )
