"""Mistakes that people make when they pack a mask, each as a function with its gradient."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def leaky_by(mistaken: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a leaky ReLU whose mask, in rows of eight, goes through a mistake."""

    def leaky(x: Tensor, slope: float) -> Tensor:
        flat = (x > 0).reshape(-1)
        rows = torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]).reshape(-1, 8)
        mask = mistaken(rows).reshape(-1)[: flat.numel()].reshape(x.shape)
        return torch.where(mask, x, slope * x)

    return leaky


PACKED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "Both sides are exchanged: which of them does a bit that is set stand for, in forward and in "
    "backward?": leaky_by(lambda rows: ~rows),
    "In each byte the bits come back in reverse: do packing and unpacking begin at the same end, "
    "both with 1, 2, 4, …?": leaky_by(lambda rows: rows.flip(1)),
    "Eight neighbors share a byte, so a row of the unpacked matrix belongs to one byte: "
    "packed[:, None] & bits. With packed[None, :] the columns do.": leaky_by(lambda rows: rows.t()),
}
