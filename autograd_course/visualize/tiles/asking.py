"""What may be asked for: one head's tensors, a block, a mask; and the sentence for what may not."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.tiles.trace import Place
from autograd_course.visualize.tiles.tracing import Inputs

MOST_TILES, LONGEST = 16, 64  # tiles along one side, and queries or keys, that are still legible


def asked(q: Any, k: Any, v: Any, mask: Any) -> Inputs:
    """Check the tensors of one head; raise ``TraceError`` for what cannot be shown."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _one_head(name, x)
    if len({x.dtype for x in (q, k, v)}) > 1 or len({x.device for x in (q, k, v)}) > 1:
        raise TraceError("q, k and v need one dtype and one device; convert them with .to(q).")
    if q.shape[1] != k.shape[1] or k.shape[0] != v.shape[0]:
        shapes = ", ".join(f"{n} {tuple(x.shape)}" for n, x in (("q", q), ("k", k), ("v", v)))
        raise TraceError(f"The shapes do not fit ({shapes}); q (N, E) needs k (M, E) and v (M, F).")
    if max(q.shape[0], k.shape[0]) > LONGEST:
        raise TraceError(
            f"{q.shape[0]} queries and {k.shape[0]} keys are too many to show; "
            f"pass at most {LONGEST} of each, such as q[:{LONGEST}]."
        )
    return Inputs(q, k, v, _checked_mask(mask, q, k))


def _one_head(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TraceError(
            f"{name} is of type {type(x).__name__}; pass a tensor of shape (tokens, features)."
        )
    if not x.is_nested and x.dim() != 2:
        raise TraceError(
            f"{name} has {x.dim()} axes, and one head has two, (tokens, features); "
            "pass one head, such as q[0, 0]."
        )
    if not x.is_floating_point():
        raise TraceError(
            f"{name} is {str(x.dtype)[6:]}; attention needs real floats: {name}.float()."
        )
    if x.layout != torch.strided or x.is_nested or x.is_meta:
        raise TraceError(f"{name} must be a dense tensor with values; convert it to one.")
    if not x.numel() or not x.isfinite().all():
        lack = "elements" if not x.numel() else "finite elements only"
        raise TraceError(f"{name} needs {lack}; check how it was made.")


def _checked_mask(mask: Any, q: Tensor, k: Tensor) -> Tensor | None:
    if mask is None:
        return None
    size = (q.shape[0], k.shape[0])
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TraceError(
            "mask must be a boolean tensor, True where a key takes part, such as scores > 0."
        )
    try:
        return mask.to(q.device).expand(size)
    except RuntimeError as error:
        raise TraceError(f"mask has shape {tuple(mask.shape)}; it needs {size}.") from error


def checked_block(block: Any, size: Place) -> Place:
    """Return the block as a pair, cut to the size of the score matrix."""
    pair = tuple(block) if isinstance(block, tuple | list) else (block,)
    if len(pair) != 2 or not all(type(side) is int and side > 0 for side in pair):
        raise TraceError(f"block is {block!r}; pass (queries, keys) of a tile, such as (2, 2).")
    height, width = (min(side, most) for side, most in zip(pair, size, strict=True))
    if not legible((height, width), size):
        least = tuple(-(-most // MOST_TILES) for most in size)
        raise TraceError(
            f"Tiles of {height}×{width} are more than {MOST_TILES} along a side; "
            f"use a block of {least} or larger, or fewer queries and keys."
        )
    return height, width


def legible(block: Place, size: Place) -> bool:
    """Whether there are few enough tiles along both sides."""
    return all(side * MOST_TILES >= most for side, most in zip(block, size, strict=True))


def choices(block: Place, size: Place, most: int = 36) -> list[Place]:
    """Return the blocks to choose from: squares of powers of two, the asked one, and the whole."""
    sides = [2**power for power in range(7) if 2**power < max(size)]
    squares = [(min(side, size[0]), min(side, size[1])) for side in sides]
    few = [square for square in squares if _tiles(square, size) <= most and legible(square, size)]
    return sorted({*few, block, size})


def _tiles(block: Place, size: Place) -> int:
    return -(-size[0] // block[0]) * -(-size[1] // block[1])
