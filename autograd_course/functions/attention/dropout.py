"""Dropout without a saved mask: a hash of the seed and position decides which weights to drop."""

from typing import TypeVar

import torch
from torch import Tensor

Word = TypeVar("Word", int, Tensor)
WORD = 0xFFFFFFFF
FIRST, SECOND = 0x21F0AAAD, 0x735A2D97


def dropped(rows: Tensor, columns: Tensor, dropout_p: float, seed: int) -> Tensor:
    """Return a mask of the weights that dropout sets to 0: ``hash(seed, row, column) < p · 2³²``.

    The result for an entry depends only on its row, its column and the seed. You can therefore
    compute each tile independently, in any order and on any device, and recompute it in backward
    without a saved mask. Multiply the remaining weights by ``1 / (1 - p)``.

    The function hashes rows and columns separately. Each pair of a row and a column then needs only
    one more round of hashing, so the work per element is small.

    Args:
        rows: The row numbers of the weights, ``head · N + query``: int64, shape ``(..., n)``.
        columns: The column numbers of the weights, one for each key: int64, shape ``(m,)``.
        dropout_p: The probability that a weight is dropped.
        seed: The random seed. Different seeds drop different weights.

    Returns:
        The mask, True where a weight is dropped: boolean, shape ``(..., n, m)``.

    Example:
        >>> import torch
        >>> dropped(torch.arange(100), torch.arange(100), 0.25, seed=0).float().mean()
        tensor(0.25...)

    Sources: Salmon et al., "Parallel random numbers", 2011; the constants are from
    "hash-prospector", a search for good integer hashes.
    """
    pairs = row_words(rows, seed)[..., None] ^ column_words(columns, seed)
    pairs.mul_(FIRST)
    pairs.bitwise_xor_((pairs >> 15).bitwise_and_(0x1FFFF))  # a logical shift: >> keeps the sign
    return pairs.mul_(SECOND) < threshold(dropout_p)


def threshold(dropout_p: float) -> int:
    """Return the signed 32-bit threshold. Dropout drops a weight if its hash is smaller."""
    return min(int(dropout_p * 2**32), WORD) - 2**31


def row_words(rows: Tensor, seed: int) -> Tensor:
    """Return a pseudorandom 32-bit word for each row number."""
    return _words(rows, _mixed(seed & WORD) ^ _mixed(seed >> 32 & WORD))


def column_words(columns: Tensor, seed: int) -> Tensor:
    """Return a pseudorandom 32-bit word for each column number, different from the row words."""
    return _words(columns, _mixed(~seed & WORD) + _mixed(seed >> 32 & WORD))


def _words(numbers: Tensor, key: int) -> Tensor:
    words = _mixed(_mixed((numbers & WORD) ^ (key & WORD)) ^ (numbers >> 32 & WORD))
    return words.to(torch.int32)  # all 32 bits; the highest bit is now the sign


def _mixed(word: Word) -> Word:
    """Scramble 32-bit words. They are stored in 64 bits so that no product overflows."""
    word = (word ^ (word >> 16)) * FIRST & WORD
    word = (word ^ (word >> 15)) * SECOND & WORD
    return word ^ (word >> 15)
