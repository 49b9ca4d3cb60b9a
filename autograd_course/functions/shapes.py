"""Shapes that a backward has to go back to: before broadcasting, before a reduction."""

from collections.abc import Iterable

import torch
from torch import Tensor


def sum_to_shape(gradient: Tensor, shape: Iterable[int]) -> Tensor:
    """Sum ``gradient`` over what broadcasting has repeated, down to ``shape``.

    The VJP of ``x.expand(gradient.shape)``: axes that broadcasting put in front are summed away,
    axes that it stretched from length 1 are summed and kept. The dtype stays.

    Raises ``RuntimeError`` if ``shape`` does not broadcast to the gradient's. The same as
    ``gradient.sum_to_size(shape)``, written out.
    """
    shape = torch.Size(shape)
    added = gradient.dim() - len(shape)
    stretched = tuple(
        axis
        for axis, length in enumerate(gradient.shape)
        if axis < added or (shape[axis - added] == 1 and length != 1)
    )
    # torch.sum(dim=()) would reduce everything, not nothing.
    summed = gradient.sum(stretched) if stretched else gradient
    return summed.reshape(shape)


def kept_shape(shape: Iterable[int], dim: int | tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that a reduction over ``dim`` gives with ``keepdim=True``.

    A reduced tensor reshaped to it broadcasts against the input, whether it was made with
    ``keepdim`` or without. ``dim`` is one axis or several, negative ones from the end.
    """
    lengths = tuple(shape)
    dims = {d % max(len(lengths), 1) for d in ((dim,) if isinstance(dim, int) else dim)}
    return tuple(1 if axis in dims else length for axis, length in enumerate(lengths))
