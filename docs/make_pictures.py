"""Make the pictures that README.md shows: python docs/make_pictures.py."""

from pathlib import Path

import torch

from autograd_course.functions import ClippedReLU, Square
from autograd_course.visualize import gradient_flow


def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the small loss of lesson 01."""
    return Square.apply(x) + ClippedReLU.apply(y)


flow = gradient_flow(loss, torch.tensor(2.0), torch.tensor(3.0))
Path(__file__).with_name("gradient_flow.png").write_bytes(flow.picture.png)
