"""1,797 handwritten digits of 8 × 8 pixels: a real dataset that needs no download.

The data are the test set of "Optical Recognition of Handwritten Digits" by E. Alpaydin and
C. Kaynak, UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed under
CC BY 4.0. ``digits.npz`` contains them unchanged, in the order of scikit-learn's ``load_digits``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

_FILE = Path(__file__).with_suffix(".npz")


def load_digits() -> tuple[Tensor, Tensor]:
    """Return all images and labels.

    Neighbors were written by the same person, so shuffle the images before you split them.

    Returns:
        images: shape ``(1797, 64)``, dtype float64. Each row holds the pixels of one image, row by
            row, from -1 (white) to 1 (black) in steps of 1/8.
        labels: shape ``(1797,)``, dtype int64. The digit that each image shows, from 0 to 9.

    Example:
        >>> images, labels = load_digits()
        >>> images.shape, labels[:3]
        (torch.Size([1797, 64]), tensor([0, 1, 2]))
    """
    with np.load(_FILE) as data:
        images, labels = torch.from_numpy(data["images"]), torch.from_numpy(data["labels"])
    return images.double() / 8 - 1, labels.long()
