"""Find the weights in the matrix products and convolutions that a network runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from autograd_doctor.memory import DispatchMode, operation_name
from torch import Tensor

# For each PyTorch operation, the positions of its two factors in the arguments.
_FACTORS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "convolution": 0}


class Products(DispatchMode):
    """In a ``with`` block, record both factors of each matrix product and convolution."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.factors: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. If it is a product, record its factors."""
        first = _FACTORS.get(operation_name(func))
        if first is not None:
            left, right = args[first : first + 2]
            self.factors.append((left.clone(), right.clone()))
        return func(*args, **(kwargs or {}))


class WithoutProducts(DispatchMode):
    """In a ``with`` block, replace the results of all matrix products and convolutions by zeros."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. If it is a product, return zeros."""
        result = func(*args, **(kwargs or {}))
        return torch.zeros_like(result) if operation_name(func) in _FACTORS else result


def weights_used(net: Callable[[Tensor], Any], one: Tensor, other: Tensor) -> Iterator[Tensor]:
    """Yield the weight of each product that a network runs, in order.

    The weight is the factor that does not change when the data changes. ``one`` and ``other`` are
    two batches of the same shape. If neither factor changes, the product does not depend on the
    data.
    """
    for same, _ in _told_apart(net, one, other):
        if len(same) == 1:
            yield same[0]


def data_used(net: Callable[[Tensor], Any], one: Tensor, other: Tensor) -> Iterator[Tensor]:
    """For each product with a weight, in order, yield the other factor for the batch ``one``."""
    for same, changed in _told_apart(net, one, other):
        if len(same) == 1:
            yield changed[0]


def _told_apart(
    net: Callable[[Tensor], Any], one: Tensor, other: Tensor
) -> Iterator[tuple[list[Tensor], list[Tensor]]]:
    """Yield two lists for each product: the factors equal for both batches, and the others."""
    runs = []
    for batch in (one, other):
        with torch.no_grad(), Products() as products:
            net(batch)
        runs.append(products.factors)
    for once, again in zip(*runs, strict=False):
        equal = [torch.equal(a, b) for a, b in zip(once, again, strict=True)]
        yield (
            [a for a, is_same in zip(once, equal, strict=True) if is_same],
            [a for a, is_same in zip(once, equal, strict=True) if not is_same],
        )
