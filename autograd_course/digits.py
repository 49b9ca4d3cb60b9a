"""A real dataset that needs no download: 1,797 handwritten digits of 8 × 8 pixels.

The data is the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C.
Kaynak, UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed under CC BY 4.0.
``digits.npz`` contains it unchanged, in the same order as scikit-learn's ``load_digits``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_FILE = Path(__file__).with_suffix(".npz")
HELD_OUT = 400  # of the 1,797 digits
_SEED = 4


class Digits(NamedTuple):
    """``images``: rows of 64 pixels between -1 and 1. ``labels``: the digit in each image."""

    images: Tensor
    labels: Tensor


def load_digits() -> tuple[Tensor, Tensor]:
    """Return the images and the labels of all digits.

    Neighboring images were written by the same person, so shuffle them before you split them.

    Returns:
        images: shape ``(1797, 64)``, dtype float64. Each row holds the pixels of one image, row by
            row. The values range from -1 (white) to 1 (black) in steps of 1/8.
        labels: shape ``(1797,)``, dtype int64. The digit that each image shows, from 0 to 9.

    Example:
        >>> images, labels = load_digits()
        >>> images.shape, labels[:3]
        (torch.Size([1797, 64]), tensor([0, 1, 2]))
    """
    with np.load(_FILE) as data:
        images, labels = torch.from_numpy(data["images"]), torch.from_numpy(data["labels"])
    return images.double() / 8 - 1, labels.long()


def split_digits() -> tuple[Digits, Digits]:
    """Shuffle the digits and hold out 400 of them. The split is always the same.

    The grader trains and tests a learner's model with this split.

    Returns:
        shown: 1,397 ``Digits`` for training, with float32 ``images`` and their ``labels``.
        held_out: 400 ``Digits`` for testing, in the same form.

    Example:
        >>> shown, held_out = split_digits()
        >>> shown.images.shape, held_out.labels.shape
        (torch.Size([1397, 64]), torch.Size([400]))
    """
    images, labels = load_digits()
    images = images.float()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(_SEED))
    shown, held_out = order[HELD_OUT:], order[:HELD_OUT]
    return Digits(images[shown], labels[shown]), Digits(images[held_out], labels[held_out])
