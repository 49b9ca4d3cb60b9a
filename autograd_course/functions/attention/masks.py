"""A mask of which tiles are taken: it broadcasts, and is never made larger than it is."""

import torch
from torch import Tensor

from autograd_course.functions.attention.places import At


class TiledMask:
    """Reads the tiles of a mask, or adds tiles to its gradient.

    ``mask`` broadcasts to ``(*lead, N, M)``, where ``lead`` are the leading axes of the queries.
    It is seen as some tables ``(N or 1, M or 1)``, and each head, ``(heads, members)``, has the
    number of one of them.
    """

    def __init__(self, mask: Tensor, lead: torch.Size, members: int) -> None:
        mask = mask[(None,) * max(0, 2 - mask.dim())]
        self.tables = mask.reshape(-1, *mask.shape[-2:])
        numbers = torch.arange(len(self.tables), device=mask.device)
        self._of_head = numbers.view(mask.shape[:-2]).expand(lead).reshape(-1, members)

    def tile(self, at: At) -> Tensor:
        """Return what is masked in a tile; it broadcasts to the tile's scores."""
        found = self._seen(at)
        return found if len(found) == 1 else found.index_select(0, self._of_head[at.heads_of_query])

    def add(self, at: At, tile: Tensor) -> None:
        """Add a tile of gradients to the mask's own, summed where the mask broadcasts."""
        place = self._seen(at)
        summed = tile.sum_to_size(len(tile), *place.shape[1:])
        place.index_add_(0, self._of_head[at.heads_of_query], summed)

    def _seen(self, at: At) -> Tensor:
        _, n, m = self.tables.shape
        return self.tables[:, at.queries if n > 1 else slice(1), at.keys if m > 1 else slice(1)]


def unexpanded(mask: Tensor) -> Tensor:
    """Return the mask with a single entry along each axis that only repeats one in memory."""
    return mask[tuple(slice(1) if step == 0 else slice(None) for step in mask.stride())]
