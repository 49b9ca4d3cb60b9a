"""Compute both Jacobians of a function, and divide large matrices into cells."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from autograd_doctor import CannotDiagnoseError
from autograd_doctor.formatting import sentence
from autograd_doctor.jacobians import Axis, ComputedJacobians, Jacobians, Matrix, compute_jacobians
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import as_callable, require_dense, require_values

MOST = 128  # the maximum number of rows and columns that are shown individually

AGREES, WRONG, UNKNOWN = ".", "x", "?"


def capture(
    fn: Any, inputs: Sequence[Any], of: int | None, reference: Callable[..., Any] | None
) -> ComputedJacobians:
    """For each output and each differentiable input, return both Jacobians.

    Raises :class:`TraceError` if forward or backward raises an error, or if a Jacobian is too
    large.
    """
    as_callable(fn, "jacobian_view")
    require_values(inputs)
    require_dense(inputs)
    try:
        return compute_jacobians(fn, inputs, output=of, reference=reference)
    except CannotDiagnoseError as error:
        raise TraceError(sentence(str(error))) from None


@dataclass(frozen=True)
class Cells:
    """The cells of the three maps. Each cell is a block of ``block`` entries.

    For each block, a map shows the entry with the largest magnitude. ``marks`` contains one
    character per cell. The character shows whether backward agrees, backward is wrong, or forward
    is not differentiable.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    block: tuple[int, int]
    differences: Matrix
    backward: Matrix
    off: Matrix
    marks: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether each cell shows a single entry."""
        return self.block == (1, 1)

    @property
    def wrong(self) -> Iterator[tuple[int, int]]:
        """The cells in which backward is wrong, row by row."""
        for i, line in enumerate(self.marks):
            yield from ((i, j) for j, mark in enumerate(line) if mark == WRONG)

    @property
    def worst(self) -> tuple[int, int]:
        """The wrong cell with the largest difference, or (0, 0) if no cell is wrong."""
        sizes = {
            (i, j): abs(v) if math.isfinite(v := self.off[i][j]) else math.inf
            for i, j in self.wrong
        }
        most = max(sizes.values(), default=0.0)
        # Do not compare with the exact maximum, because equal entries can differ in their last
        # digits between machines.
        return next((at for at, size in sizes.items() if size >= (1 - 1e-6) * most), (0, 0))


def cells_of(pair: Jacobians) -> Cells:
    """Return the cells of a Jacobian."""
    height, width = len(pair.off), len(pair.off[0])
    block = (math.ceil(height / MOST), math.ceil(width / MOST))
    differences, backward, off = (
        torch.tensor(matrix, dtype=torch.float64)
        for matrix in (pair.differences, pair.backward, pair.off)
    )
    unknown = differences.isnan()
    wrong = (off != 0) & ~unknown
    return Cells(
        rows=_labels(pair.rows, block[0]),
        columns=_labels(pair.columns, block[1]),
        block=block,
        differences=_largest(differences, block),
        backward=_largest(backward, block),
        off=_largest(torch.where(unknown, torch.nan, off), block),
        marks=_marks(wrong, unknown, block),
    )


def _labels(axis: Axis, size: int) -> tuple[str, ...]:
    count = len(axis.places)
    spans = [(start, min(start + size, count) - 1) for start in range(0, count, size)]
    return tuple(
        axis.label(a) if a == b else f"{axis.label(a)} … {axis.label(b)}" for a, b in spans
    )


def _blocks(matrix: Tensor, block: tuple[int, int], filler: float) -> Tensor:
    """Return a 3D tensor whose third dim contains the entries of each block."""
    (high, wide), (rows, columns) = block, matrix.shape
    padding = (0, -columns % wide, 0, -rows % high)
    padded = torch.nn.functional.pad(matrix, padding, value=filler)
    parts = padded.reshape(padded.shape[0] // high, high, padded.shape[1] // wide, wide)
    return parts.transpose(1, 2).flatten(2)


def _largest(matrix: Tensor, block: tuple[int, int]) -> Matrix:
    """For each block, return the entry with the largest magnitude, including its sign."""
    blocks = _blocks(matrix, block, math.nan)
    place = blocks.abs().nan_to_num(nan=-1.0, posinf=math.inf).argmax(-1, keepdim=True)
    return tuple(map(tuple, blocks.gather(-1, place).squeeze(-1).tolist()))


def _marks(wrong: Tensor, unknown: Tensor, block: tuple[int, int]) -> tuple[str, ...]:
    bad = _blocks(wrong.double(), block, 0.0).amax(-1) > 0
    blind = _blocks(unknown.double(), block, 1.0).amin(-1) > 0
    return tuple(
        "".join(WRONG if b else UNKNOWN if u else AGREES for b, u in zip(*lines, strict=True))
        for lines in zip(bad.tolist(), blind.tolist(), strict=True)
    )
