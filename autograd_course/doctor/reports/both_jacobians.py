"""The Jacobian twice, by differences of forward and as backward has it: data to be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import resolution, size
from autograd_course.doctor.evidence import Columns, Evidence, Rows
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.truth.differences import as_real

MOST = 48  # rows and columns that are shown
RELATIVE = 1e-6  # of the largest entry: a smaller difference is none

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Jacobians:
    """One Jacobian in two ways: a row for each element of an output, a column for each of an input.

    ``off`` is ``backward`` minus ``differences``, 0 where they agree. NaN stands where forward is
    not differentiable. ``whole`` is the size of the whole Jacobian; these are its first rows and
    columns. A complex element counts as two, its real and its imaginary part.
    """

    output: str
    input: str
    whole: tuple[int, int]
    differences: Matrix
    backward: Matrix
    off: Matrix


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
    outputs = [as_real(out).numel() for out in evidence.forward.outputs if is_float(out)]
    position = evidence.wanted[slot]
    columns, start = evidence.jacobian[slot], 0
    for k, count in enumerate(outputs):
        here = (rows.index >= start) & (rows.index < start + count)
        if bool(here.any()):
            differences, backward, off = _blocks(columns, rows, slot, here)
            yield Jacobians(
                output="the output" if len(outputs) == 1 else f"output {k}",
                input=evidence.name(position),
                whole=(count, as_real(evidence.inputs[position]).numel()),
                differences=_plain(differences),
                backward=_plain(backward),
                off=_plain(off),
            )
        start += count


def _blocks(columns: Columns, rows: Rows, slot: int, here: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows ``here`` of both Jacobians, as far as they are shown, and how they differ."""
    of_output, of_input = rows.index[here][:MOST], columns.index[:MOST]
    differences = columns.matrix.cpu()[of_output][:, : len(of_input)]
    differences = torch.where(columns.smooth[:MOST], differences, torch.nan)
    backward = rows.matrices[slot].cpu()[here][:MOST][:, of_input]
    error = columns.error.cpu()[of_output][:, : len(of_input)]
    rounding = (RELATIVE + resolution(backward)) * max(size(differences), size(backward))
    off = backward - differences
    return differences, backward, torch.where(off.abs() <= 3 * error + rounding, 0.0, off)


def _plain(matrix: Tensor) -> Matrix:
    return tuple(map(tuple, matrix.tolist()))
