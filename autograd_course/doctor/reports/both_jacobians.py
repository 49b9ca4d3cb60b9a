"""The Jacobian twice, by differences of forward and as backward has it: data to be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import resolution, size
from autograd_course.doctor.comparing.numbers import element, unraveled
from autograd_course.doctor.evidence import Columns, Evidence, Rows
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.truth.differences import as_real

MOST = 48  # rows and columns that are shown
RELATIVE = 1e-6  # of the largest entry: a smaller difference is none

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Axis:
    """What the rows or the columns of a matrix stand for: elements of a tensor.

    ``places`` are their flat positions. Of a ``pairs`` tensor, which is complex, each element has
    two places, its real and its imaginary part; ``shape`` is the tensor's own.
    """

    name: str
    shape: tuple[int, ...]
    places: tuple[int, ...]
    pairs: bool = False

    def label(self, k: int) -> str:
        """Write the element that row or column ``k`` stands for, as in ``x[0, 2]``."""
        place, part = divmod(self.places[k], 2) if self.pairs else (self.places[k], 0)
        where = element(self.name, unraveled(place, torch.Size(self.shape)))
        return where + (".real", ".imag")[part] if self.pairs else where


@dataclass(frozen=True)
class Jacobians:
    """One Jacobian in two ways: a row for each element of an output, a column for each of an input.

    ``off`` is ``backward`` minus ``differences``, 0 where they agree. NaN stands where forward is
    not differentiable. ``whole`` is the size of the whole Jacobian; these are its first rows and
    columns, which ``rows`` and ``columns`` name. A complex element counts as two, its real and its
    imaginary part.
    """

    output: str
    input: str
    whole: tuple[int, int]
    differences: Matrix
    backward: Matrix
    off: Matrix
    rows: Axis
    columns: Axis


def both_jacobians(evidence: Evidence, name: str = "") -> Jacobians | None:
    """Return both Jacobians of one input where they differ, of the first such without its name.

    ``None`` where they agree, and where backward is not meant to be forward's derivative.
    """
    rows = evidence.rows
    if rows is None or not evidence.jacobian or evidence.surrogate:
        return None
    for slot, position in enumerate(evidence.wanted):
        if name in ("", evidence.name(position)):
            for pair in _of_each_output(evidence, rows, slot):
                if any(entry for line in pair.off for entry in line if entry == entry):
                    return pair
    return None


def _of_each_output(evidence: Evidence, rows: Rows, slot: int) -> Iterator[Jacobians]:
    """Yield the Jacobians of each floating output with respect to one input."""
    outputs = [out for out in evidence.forward.outputs if is_float(out)]
    position = evidence.wanted[slot]
    columns, start = evidence.jacobian[slot], 0
    for k, out in enumerate(outputs):
        count = as_real(out).numel()
        here = (rows.index >= start) & (rows.index < start + count)
        if bool(here.any()):
            name = "the output" if len(outputs) == 1 else f"output {k}"
            yield jacobians(
                axis(name.removeprefix("the "), out, rows.index[here][:MOST] - start),
                axis(evidence.name(position), evidence.inputs[position], columns.index[:MOST]),
                (count, as_real(evidence.inputs[position]).numel()),
                *_blocks(columns, rows, slot, here),
            )
        start += count


def axis(name: str, tensor: Tensor, places: Tensor) -> Axis:
    """Return what rows or columns stand for at flat real ``places`` of a tensor."""
    return Axis(name, tuple(tensor.shape), tuple(places.tolist()), tensor.is_complex())


def jacobians(
    rows: Axis,
    columns: Axis,
    whole: tuple[int, int],
    differences: Tensor,
    backward: Tensor,
    off: Tensor,
) -> Jacobians:
    """Return the three matrices, the names of their rows and columns, as plain data."""
    return Jacobians(
        output="the output" if rows.name == "output" else rows.name,
        input=columns.name,
        whole=whole,
        differences=_plain(differences),
        backward=_plain(backward),
        off=_plain(off),
        rows=rows,
        columns=columns,
    )


def _blocks(columns: Columns, rows: Rows, slot: int, here: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows ``here`` of both Jacobians, as far as they are shown, and how they differ."""
    of_output, of_input = rows.index[here][:MOST], columns.index[:MOST]
    differences = columns.matrix.cpu()[of_output][:, : len(of_input)]
    differences = torch.where(columns.smooth[:MOST], differences, torch.nan)
    backward = rows.matrices[slot].cpu()[here][:MOST][:, of_input]
    error = columns.error.cpu()[of_output][:, : len(of_input)]
    return differences, backward, disagreement(backward, differences, error)


def disagreement(backward: Tensor, differences: Tensor, error: Tensor) -> Tensor:
    """Return ``backward - differences``, 0 where no more than rounding and their ``error``."""
    rounding = (RELATIVE + resolution(backward)) * max(size(differences), size(backward))
    off = backward - differences
    return torch.where(off.abs() <= 3 * error + rounding, 0.0, off)


def _plain(matrix: Tensor) -> Matrix:
    return tuple(map(tuple, matrix.tolist()))
