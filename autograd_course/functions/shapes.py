"""Helpers for ``backward`` that undo the shape changes of broadcasting and reductions."""

from collections.abc import Iterable

import torch
from torch import Tensor


def sum_to_shape(gradient: Tensor, shape: Iterable[int]) -> Tensor:
    """Reduce ``gradient`` to ``shape``: sum over the dims that broadcasting added or expanded.

    This is the VJP of ``x.expand(gradient.shape)``. Dims that broadcasting added in front are
    summed and removed. Dims that broadcasting expanded from size 1 are summed and kept. The dtype
    does not change. ``gradient.sum_to_size(shape)`` returns the same result.

    Raises ``RuntimeError`` if ``shape`` does not broadcast to the shape of the gradient.
    """
    shape = torch.Size(shape)
    added = gradient.dim() - len(shape)
    stretched = tuple(
        axis
        for axis, length in enumerate(gradient.shape)
        if axis < added or (shape[axis - added] == 1 and length != 1)
    )
    # torch.sum(dim=()) would reduce all dims instead of none.
    summed = gradient.sum(stretched) if stretched else gradient
    return summed.reshape(shape)


def kept_shape(shape: Iterable[int], dim: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that a reduction over ``dim`` would return with ``keepdim=True``.

    A result reshaped to this shape broadcasts against the input, whether or not the reduction used
    ``keepdim``. ``dim`` is one or more dims. Negative dims count from the end.
    """
    lengths = tuple(shape)
    dims = {d % max(len(lengths), 1) for d in ((dim,) if isinstance(dim, int) else dim)}
    return tuple(1 if axis in dims else length for axis, length in enumerate(lengths))
