"""Restore shapes in backward: the shape before broadcasting, and the shape before a reduction."""

from collections.abc import Iterable

import torch
from torch import Tensor


def sum_to_shape(gradient: Tensor, shape: Iterable[int]) -> Tensor:
    """Sum ``gradient`` to ``shape``, over the dims that broadcasting has added or expanded.

    This is the VJP of ``x.expand(gradient.shape)``. Dims that broadcasting added in front are
    summed and removed. Dims that it expanded from size 1 are summed and kept. The dtype stays the
    same. ``gradient.sum_to_size(shape)`` does the same.

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
    """Return the shape of the result of a reduction over ``dim`` with ``keepdim=True``.

    If you reshape the result of a reduction to this shape, it broadcasts against the input, whether
    or not the reduction used ``keepdim``. ``dim`` is one or more dims. Negative dims count from the
    end.
    """
    lengths = tuple(shape)
    dims = {d % max(len(lengths), 1) for d in ((dim,) if isinstance(dim, int) else dim)}
    return tuple(1 if axis in dims else length for axis, length in enumerate(lengths))
