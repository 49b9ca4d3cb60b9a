"""Rows of a table

1. The gradient of the table is zero except in the rows that were read. What if a row was read three
   times, so that three rows of the output are copies of it? And if the index has two dims: which
   reshape turns it and grad_output into a list of rows?
2. A copy in the forward pass is a sum in the backward pass. Add every row of grad_output to the row
   of the table that it came from. An assignment keeps only one of the copies. PyTorch has an
   operation that adds.
3. Keep the shape of the table. grad = grad_output.new_zeros(shape) has the right dtype. Then call
   grad.index_add(0, index.reshape(-1), rows), where rows is grad_output with its leading dims
   flattened into one. Return None for the index.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return ``table[index]``, with the shape ``(*index.shape, *row.shape)``."""
    return table[index]


def repeating(rng: torch.Generator, rows: int, *shape: int) -> Tensor:
    """Return row indices in which row 0 appears several times and the last row never appears."""
    index = torch.randint(rows - 1, shape, generator=rng, device="cpu")
    index.view(-1)[[0, -1]] = 0
    return index


EXERCISE = FunctionExercise(
    answer="GatherRows",
    points=2,
    difficulty="easy",
    minutes=9,
    section="Indices that repeat",
    reference=gather_rows,
    samplers={
        "5 rows picked from 4": lambda rng: (normal(rng, 4, 3), repeating(rng, 4, 5)),
        "a 2×3 matrix of indices": lambda rng: (normal(rng, 5, 2), repeating(rng, 5, 2, 3)),
        "a single index (0-dim)": lambda rng: (normal(rng, 3, 2), torch.tensor(1)),
        "rows of one number": lambda rng: (normal(rng, 6, 1), repeating(rng, 6, 4)),
    },
    accepted=("returns-view",),  # table[index] is a view for a 0-dim index
    checks=(
        *CONDUCT,
        without(
            "embedding_dense_backward",
            "index_backward",
            "index_select_backward",
            use="zeros, and an operation that adds rows to them",
        ),
    ),
)
