"""The Jacobian of forward next to that of backward: chosen, compared and drawn."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import resolution, size
from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.formatting import element, number, unraveled
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._pipeline import VALUE_FAMILIES, Findings
from autograd_doctor._rules import RULES
from autograd_doctor.evidence import Evidence, JacobianColumns, JacobianRows

# --------------------------------------------------------------------------------------------------
# The Jacobian twice, by differences of forward and as backward has it: data to be drawn.
# --------------------------------------------------------------------------------------------------

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


def _of_each_output(evidence: Evidence, rows: JacobianRows, slot: int) -> Iterator[Jacobians]:
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


def _blocks(
    columns: JacobianColumns, rows: JacobianRows, slot: int, here: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
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


# --------------------------------------------------------------------------------------------------
# Two Jacobians and their difference as small heat maps, in HTML without scripts.
#
# The pictures are the same bytes on every machine: entries are rounded to a few shades, and nothing
# is compressed, because compressors differ. They are PNG because JupyterLab drops SVG from
# notebooks that it does not trust.
# --------------------------------------------------------------------------------------------------

TITLES = ("finite differences of forward", "backward", "backward − finite differences")
SHADES = 8  # of each sign
UNKNOWN = 2 * SHADES + 1  # the last color of the palette: there is no derivative
NEGATIVE, POSITIVE = (0, 92, 171), (196, 78, 0)  # blue and orange: told apart by everybody
ZERO, GRAY = (250, 250, 250), (138, 143, 152)
NEGLIGIBLE = 1e-6  # of the largest entry: shown as zero
_EXTENT, _CELL = 168, 14  # pixels on the page: of a map, and of one of its entries, at most
_BORDER = "border: 1px solid #8a8f98"
_PIXELS = 48  # in the picture: enough that entries have edges where a page smooths it


def as_html(pair: Jacobians) -> str:
    """Return the three maps side by side, captions and a legend."""
    largest = max(largest_of(pair.differences), largest_of(pair.backward))
    maps = (
        _map(pair, pair.differences, largest, TITLES[0]),
        _map(pair, pair.backward, largest, TITLES[1]),
        _map(pair, pair.off, largest_of(pair.off), TITLES[2]),
    )
    return (
        f'<div style="margin: 8px 0 6px">{escape(heading(pair))}'
        f'<div style="display: flex; flex-wrap: wrap; gap: 6px 12px; margin: 6px 0">'
        f"{''.join(maps)}</div>{_legend(pair)}</div>"
    )


def png(matrix: Matrix, largest: float) -> bytes:
    """Draw a matrix, some pixels an entry; ``largest`` gets the darkest shade."""
    height, width = len(matrix), len(matrix[0])
    side = max(1, _PIXELS // max(height, width))
    colors = (bytes(shade(entry, largest) for entry in row) for row in matrix)
    lines = (side * (b"\0" + b"".join(side * bytes([color]) for color in row)) for row in colors)
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", side * width, side * height, 8, 3, 0, 0, 0),
        b"PLTE": b"".join(bytes(color) for color in palette()),
        b"IDAT": _stored(b"".join(lines)),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts.items())


def _stored(data: bytes) -> bytes:
    """Return data in zlib's format, as one block that is not compressed."""
    length = struct.pack("<BHH", 1, len(data), len(data) ^ 0xFFFF)
    return b"\x78\x01" + length + data + struct.pack(">I", zlib.adler32(data))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def palette() -> Iterator[tuple[int, ...]]:
    """Yield the colors from the most negative shade over zero to the most positive, then gray."""
    strengths = [0.2 + 0.8 * k / (SHADES - 1) for k in range(SHADES)]
    yield from (_between(ZERO, NEGATIVE, t) for t in reversed(strengths))
    yield ZERO
    yield from (_between(ZERO, POSITIVE, t) for t in strengths)
    yield GRAY


def _between(one: Sequence[int], other: Sequence[int], t: float) -> tuple[int, ...]:
    return tuple(round(a + t * (b - a)) for a, b in zip(one, other, strict=True))


def shade(entry: float, largest: float) -> int:
    """Return an entry's place in the palette; what is not zero has a color."""
    if math.isnan(entry):
        return UNKNOWN
    if abs(entry) <= NEGLIGIBLE * largest:
        return SHADES
    # Rounded twice: at a half, the last digits differ from machine to machine.
    share = round(min(abs(entry) / largest, 1.0) * SHADES, 6) if largest else SHADES
    return SHADES + int(math.copysign(max(1, round(share)), entry))


def largest_of(matrix: Matrix) -> float:
    """Return the largest finite magnitude, 0 where there is none."""
    return max((abs(v) for row in matrix for v in row if math.isfinite(v)), default=0.0)


def heading(pair: Jacobians) -> str:
    """Say which Jacobian this is, and which part of it."""
    rows, columns = len(pair.off), len(pair.off[0])
    part = "" if (rows, columns) == pair.whole else f" (the first {rows} × {columns} entries)"
    height, width = pair.whole
    return f"The {height} × {width} Jacobian of {pair.output} with respect to {pair.input}{part}"


def _map(pair: Jacobians, matrix: Matrix, largest: float, title: str) -> str:
    data = b64encode(png(matrix, largest)).decode()
    width, height = (min(_CELL, _EXTENT // n) * n for n in (len(matrix[0]), len(matrix)))
    alt = escape(f"{heading(pair)}, {title}: {filling(matrix)}")
    look = f"image-rendering: pixelated; {_BORDER}"
    return (
        f'<div style="max-width: {_EXTENT + 2}px">'
        f'<img src="data:image/png;base64,{data}" alt="{alt}" width="{width}" height="{height}" '
        f'style="{look}">'
        f"<div>{escape(title)}</div>"
        f'<div style="font-size: 0.9em">{escape(filling(matrix))}</div></div>'
    )


def filling(matrix: Matrix) -> str:
    """Say where a matrix is not zero, and how large it is there."""
    largest = largest_of(matrix)
    entries = {(i, j): v for i, row in enumerate(matrix) for j, v in enumerate(row)}
    filled = {at for at, v in entries.items() if abs(v) > NEGLIGIBLE * largest}
    if not filled:
        return "zero everywhere"
    size = (
        "some infinite" if any(map(math.isinf, entries.values())) else f"up to ±{number(largest)}"
    )
    if len(filled) > 1 and all(i == j for i, j in filled):
        return f"only the diagonal, {size}"
    return f"{len(filled)} of {len(entries)} entries, {size}"


def _legend(pair: Jacobians) -> str:
    meanings = [(NEGATIVE, "negative"), (ZERO, "zero"), (POSITIVE, "positive")]
    if any(math.isnan(v) for row in pair.off for v in row):
        meanings.append((GRAY, "not differentiable"))
    square = f"display: inline-block; width: 0.8em; height: 0.8em; {_BORDER}"
    return "".join(
        f'<span style="margin-right: 1.5em"><span style="{square}; background: rgb{color}"></span>'
        f" {meaning}</span>"
        for color, meaning in meanings
    )


# --------------------------------------------------------------------------------------------------
# Which picture shows what is wrong.
# --------------------------------------------------------------------------------------------------


def choose_jacobians(
    found: Findings, verdicts: Sequence[Findings], seen: Sequence[Evidence]
) -> Jacobians | None:
    """Return the Jacobians that show the first finding, if that is an error of values."""
    first = next(iter(found), None)
    if first is None or RULES[first.rule].family not in VALUE_FAMILIES:
        return None
    for findings, evidence in zip(verdicts, seen, strict=True):
        if first.severity == "error" and any(finding is first for finding in findings):
            return both_jacobians(evidence, first.evidence.get("input", ""))
    return None
