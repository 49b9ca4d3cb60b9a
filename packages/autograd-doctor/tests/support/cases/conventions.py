"""Right Functions from public code: symmetric matrices, internal float32, outputs without grad."""

from __future__ import annotations

import torch
from torch import Tensor

from cases.making import POSITIVE, Case, X, draw, saving

SYMMETRIC = draw(4, 4) @ draw(4, 4).mT + 4 * torch.eye(4, dtype=torch.float64)


def log_det(a: Tensor) -> Tensor:
    return 2 * torch.linalg.cholesky(a).diagonal(dim1=-2, dim2=-1).log().sum(-1)


def eigenvalues(a: Tensor, g: Tensor) -> Tensor:
    vectors = torch.linalg.eigh(a).eigenvectors
    return (vectors * g.unsqueeze(-2)) @ vectors.mT


def in_float32(x: Tensor) -> Tensor:
    return (x.float() ** 2).to(x.dtype)


WITNESSES = [
    Case(
        "constant-factor",
        "half of a log-determinant's gradient",
        saving(log_det, lambda a, g: g / 2 * torch.linalg.inv(a)),
        (SYMMETRIC,),
    ),
    Case(
        "transposed-gradient",
        "the inverse of a matrix that is not symmetric",
        saving(torch.logdet, lambda a, g: g * torch.linalg.inv(a)),
        (draw(4, 4, seed=1) + 4 * torch.eye(4, dtype=torch.float64),),
    ),
]

LOOKALIKES = [
    Case(
        "wrong-region",
        "eigenvalues, read from one triangle",
        saving(torch.linalg.eigvalsh, eigenvalues),
        (SYMMETRIC,),
    ),
    Case(
        "gradient-mismatch",
        "a log-determinant by Cholesky",
        saving(log_det, lambda a, g: g * torch.linalg.inv(a)),
        (SYMMETRIC,),
    ),
    Case(
        "gradient-mismatch", "a square in float32", saving(in_float32, lambda x, g: 2 * x * g), (X,)
    ),
    Case(
        "gradient-mismatch",
        "a sum in float32",
        saving(lambda x: in_float32(x).float().sum().double(), lambda x, g: 2 * x * g),
        (X,),
    ),
    Case(
        "nonlinear-in-grad-output",
        "spikes in float32 make grad_output float32",
        saving(lambda x: (x > 0).float(), lambda x, g: g / (1 + x.abs()) ** 2),
        (X,),
        {"surrogate": lambda x: x / (1 + x.abs())},
    ),
    Case(
        "wrong-non-differentiable",
        "an output that holds nothing but zeros",
        saving(lambda x: (2 * x, torch.zeros(3, dtype=x.dtype)), lambda x, g, _: 2 * g),
        (POSITIVE,),
    ),
]
