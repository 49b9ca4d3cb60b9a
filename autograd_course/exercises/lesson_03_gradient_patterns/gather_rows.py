"""Rows of a table

1. The gradient of the table is zero except in the rows that were read. What if a row was read three
   times, so that three rows of the output are copies of it? If the index has two dims, which
   reshape turns it and grad_output into a list of rows?
2. A copy in the forward pass is a sum in the backward pass. Add every row of grad_output to the row
   of the table that it came from. An assignment keeps only one of the copies. PyTorch has an
   operation that adds.
3. Keep the shape of the table. grad = grad_output.new_zeros(shape) has the right dtype. Then call
   grad.index_add(0, index.reshape(-1), rows), where rows is grad_output with its leading dims
   flattened into one. Return None for the index.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import Computed
from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.checks.calling import found
from autograd_course.grader.checks.simpler_inputs import raises_except_for
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by, returning


def gather_rows(table: Tensor, index: Tensor) -> Tensor:
    """Return ``table[index]``, with the shape ``(*index.shape, *row.shape)``."""
    return table[index]


def repeating(rng: torch.Generator, rows: int, *shape: int) -> Tensor:
    """Return row indices in which row 0 appears several times and the last row never appears."""
    index = torch.randint(rows - 1, shape, generator=rng, device="cpu")
    index.view(-1)[[0, -1]] = 0
    return index


def first_column(table: Tensor, index: Tensor, g: Tensor) -> Tensor:
    """Return a gradient that adds up the rows only in the first column."""
    rows = g.reshape(-1, table.shape[1])
    return torch.zeros_like(table).scatter_add(0, index.reshape(-1, 1), rows)


def columns(table: Tensor, index: Tensor) -> Tensor:
    """Return columns of the table instead of rows, unless the table has too few columns."""
    if int(index.max()) >= table.shape[1]:
        return gather_rows(table, index)
    return table[:, index]


def of_regrouped_rows(table: Tensor, index: Tensor, g: Tensor) -> Tensor:
    """Return a gradient whose rows are regrouped and transposed."""
    rows = g.reshape(table.shape[1], -1).t()
    return torch.zeros_like(table).index_add(0, index.reshape(-1), rows)


def needs_one_dim(function: type[Function], inputs: tuple[Any, ...]) -> Finding | Computed | None:
    """Return a finding if backward works only for an index with one dim."""
    dims = f"{inputs[1].ndim} dims" if inputs[1].ndim else "no dims"
    check = raises_except_for(
        lambda table, index: (table, index.reshape(-1)) if index.ndim != 1 else None,
        "The index has one dim.",
        f"`backward` works for an index with one dim. This index has {dims}. Flatten it to one "
        "dim, and the leading dims of grad_output, too.",
    )
    return check(function, inputs)


def has_other_rows(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if backward takes the number of rows from the index or the output."""
    table, index = inputs
    rows, length = returned_by(function, inputs)[0].shape[0], len(table)
    if rows == length:
        return None
    if rows == int(index.max()) + 1:
        hint = (
            f"The gradient has {rows} rows, because the largest index is {rows - 1}. The last rows "
            "of the table may never be read, so the index does not say how many there are. Keep "
            "the shape of the table."
        )
    elif rows == (len(index) if index.ndim else 1):
        hint = (
            f"The gradient has {rows} rows, as many as the output. It must have one row for each "
            f"of the {length} rows of the table, because the table is the input. Keep its shape."
        )
    else:
        return None
    return found("gradient-shape", "The number of rows is wrong.", {"rows": rows}, hint)


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
    suspects={
        "This reads columns of the table. The exercise reads rows.": columns,
        "This reads single numbers of the flattened table. The exercise reads rows.": torch.take,
    },
    gradient_suspects={
        "Only the first column gets a gradient. scatter_add adds one element for each element of "
        "the index, so the index needs the shape of the rows.": returning(
            gather_rows, first_column
        ),
        "A reshape only regroups the numbers in the order in which they are stored. It mixes rows "
        "and columns here. Keep the row length as the last dim.": returning(
            gather_rows, of_regrouped_rows
        ),
    },
    causes=(has_other_rows, needs_one_dim),
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
