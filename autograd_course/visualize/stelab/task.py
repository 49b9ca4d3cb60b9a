"""A small task that no straight line solves: two classes on a checkerboard of four fields."""

import torch
from torch import Tensor

REACH = 1.5  # the points lie in the square from -REACH to REACH
POINTS = 160
CELLS = 24  # a side of the map on which a net's decisions are shown
_SEED = 100  # the points are always the same; only the nets start differently


def points() -> tuple[Tensor, Tensor]:
    """Return positions [160, 2] and labels [160], 1 where both coordinates have the same sign."""
    generator = torch.Generator().manual_seed(_SEED)
    unit = torch.rand(POINTS, 2, generator=generator, dtype=torch.float64)
    positions = (2 * unit - 1) * REACH
    return positions, (positions.prod(1) > 0).double()


def chart() -> Tensor:
    """Return the middles of the map's cells [CELLS², 2], row by row from the upper left."""
    steps = ((torch.arange(CELLS, dtype=torch.float64) + 0.5) / CELLS * 2 - 1) * REACH
    down, across = torch.meshgrid(-steps, steps, indexing="ij")
    return torch.stack([across.flatten(), down.flatten()], 1)
