"""Compute, compare and draw the Jacobians of ``forward`` and ``backward``."""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import attempt, passes_within
from autograd_doctor._execution.captured_state import CapturedState
from autograd_doctor._execution.isolation import generator, preserve_global_state
from autograd_doctor._execution.operations import custom_nodes
from autograd_doctor._execution.session import Run, Session, Subject, subject_of
from autograd_doctor._inputs import all_in_double, require_dense, wanted
from autograd_doctor._numerics.closeness import resolution, size
from autograd_doctor._numerics.finite_differences import MOST_COLUMNS, as_real, flat, jacobian
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._probes.core import choose_precision
from autograd_doctor._probes.values import one_row
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import Evidence, Failure, JacobianColumns, JacobianRows
from autograd_doctor.formatting import element, number, unraveled

# --------------------------------------------------------------------------------------------------
# Data for a picture of both Jacobians, one from finite differences of forward, one from backward.
# --------------------------------------------------------------------------------------------------

MOST = 48  # maximum number of rows and of columns in the picture
RELATIVE = 1e-6  # relative to the largest entry: smaller differences are ignored

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Axis:
    """The tensor elements that the rows or columns of a matrix represent.

    ``places`` holds the flat positions of the elements. An element of a complex tensor (``pairs``)
    has two places: one for its real part and one for its imaginary part. ``shape`` is the shape of
    the tensor itself.
    """

    name: str
    shape: tuple[int, ...]
    places: tuple[int, ...]
    pairs: bool = False

    def label(self, k: int) -> str:
        """Return the name of the element that row or column ``k`` represents, as in ``x[0, 2]``."""
        place, part = divmod(self.places[k], 2) if self.pairs else (self.places[k], 0)
        where = element(self.name, unraveled(place, torch.Size(self.shape)))
        return where + (".real", ".imag")[part] if self.pairs else where


@dataclass(frozen=True)
class Jacobians:
    """A Jacobian computed in two ways. Rows are output elements, and columns are input elements.

    ``off`` is ``backward`` minus ``differences``, or 0 where the two agree. Entries are NaN where
    ``forward`` is not differentiable. ``whole`` is the size of the whole Jacobian. The matrices may
    hold only its first rows and columns, which ``rows`` and ``columns`` describe. A complex element
    has two rows or columns, for its real and imaginary parts.
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
    """Return both Jacobians with respect to one input, if they differ.

    Without a name, use the first input for which they differ.

    Return ``None`` if they agree, or if ``backward`` is not meant to be the derivative of
    ``forward``.
    """
    rows = evidence.values.rows
    if rows is None or not evidence.values.jacobian or evidence.values.surrogate:
        return None
    for slot, position in enumerate(evidence.wanted):
        if name in ("", evidence.name(position)):
            for pair in _of_each_output(evidence, rows, slot):
                if any(entry for line in pair.off for entry in line if entry == entry):
                    return pair
    return None


def _of_each_output(evidence: Evidence, rows: JacobianRows, slot: int) -> Iterator[Jacobians]:
    """Yield the Jacobian of each floating-point output with respect to one input."""
    outputs = [out for out in evidence.forward.outputs if is_float(out)]
    position = evidence.wanted[slot]
    columns, start = evidence.values.jacobian[slot], 0
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
    """Return an :class:`Axis` for the tensor elements at the flat real positions ``places``."""
    return Axis(name, tuple(tensor.shape), tuple(places.tolist()), tensor.is_complex())


def jacobians(
    rows: Axis,
    columns: Axis,
    whole: tuple[int, int],
    differences: Tensor,
    backward: Tensor,
    off: Tensor,
) -> Jacobians:
    """Convert the three matrices and the descriptions of their rows and columns to plain data."""
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
    """Return the rows at ``here`` of both Jacobians, and their difference."""
    of_output, of_input = rows.index[here][:MOST], columns.index[:MOST]
    differences = columns.matrix.cpu()[of_output][:, : len(of_input)]
    differences = torch.where(columns.smooth[:MOST], differences, torch.nan)
    backward = rows.matrices[slot].cpu()[here][:MOST][:, of_input]
    error = columns.error.cpu()[of_output][:, : len(of_input)]
    return differences, backward, disagreement(backward, differences, error)


def disagreement(backward: Tensor, differences: Tensor, error: Tensor) -> Tensor:
    """Return ``backward - differences``, or 0 where rounding and ``error`` explain it."""
    rounding = (RELATIVE + resolution(backward)) * max(size(differences), size(backward))
    off = backward - differences
    return torch.where(off.abs() <= 3 * error + rounding, 0.0, off)


def _plain(matrix: Tensor) -> Matrix:
    return tuple(map(tuple, matrix.tolist()))


# --------------------------------------------------------------------------------------------------
# Both Jacobians of a callable, entry by entry.
# --------------------------------------------------------------------------------------------------

MOST_ELEMENTS = 512  # maximum size of an input or an output, because each element needs a pass
_SECONDS = 30.0  # the time limit for one pass
_SEED = 0
T = TypeVar("T")


@dataclass(frozen=True)
class ComputedJacobians:
    """A pair of Jacobians for each output and input, and whether the call uses custom Functions."""

    pairs: tuple[Jacobians, ...]
    custom: bool


def compute_jacobians(
    fn: type[Function] | Callable[..., Any],
    inputs: Sequence[Any],
    *,
    output: int | None = None,
    reference: Callable[..., Any] | None = None,
) -> ComputedJacobians:
    """Compute both Jacobians of each output with respect to each differentiated input.

    Row ``i`` of ``backward`` is the result of a backward pass for a ``grad_output`` that is 1 at
    element ``i`` and 0 elsewhere. Column ``j`` of ``differences`` is a central difference of
    ``forward``. If there is a ``reference``, autograd computes ``differences`` from it instead. All
    passes use float64 copies, and the caller's tensors and global state do not change.

    Args:
        fn: A Function class, or a callable that calls Functions.
        inputs: The arguments of one call. A differentiated input and a floating-point output may
            have up to 512 elements.
        output: The position of one output among the floating-point outputs. By default, all
            outputs.
        reference: A differentiable callable with the same arguments and outputs.

    Returns:
        The pairs, ordered by input and then by output. The computation takes one backward pass for
        each output element and a few forward passes for each input element.

    Raises:
        CannotDiagnoseError: An input or output is too large or empty, or a pass raises an error.

    Example:
        >>> import torch
        >>> from autograd_doctor.jacobians import compute_jacobians
        >>> (pair,) = compute_jacobians(torch.square, [torch.tensor([1.0, 3.0])]).pairs
        >>> pair.backward
        ((2.0, 0.0), (0.0, 6.0))
    """
    session = _session(fn, inputs)
    with preserve_global_state(_SEED), session.subject.around.borrow(), passes_within(_SECONDS):
        subject = choose_precision(session.subject, inputs, _SEED)
        session = Session(subject, session.inputs, session.wanted, _SEED)
        run = _run(session)
        known = None if reference is None else _run(_session(reference, inputs))
        pairs = tuple(_pairs(session, run, known, _chosen(run, output)))
        return ComputedJacobians(pairs, custom=any(custom_nodes(run.floats)))


def _session(fn: Any, inputs: Sequence[Any]) -> Session:
    require_dense(inputs)
    subject = subject_of(fn, len(inputs))
    around = CapturedState((subject.name, subject.function or subject.call))
    subject = replace(subject, around=around, passed=around.passed(inputs))
    places, values = wanted(inputs), all_in_double(inputs)
    for place in places:
        _require_size(as_real(values[place]).numel(), subject.parameters[place])
    return Session(subject, values, places, _SEED)


def _run(session: Session) -> Run:
    run = _done(session.run, session.subject, "forward")
    if not run.floats:
        raise CannotDiagnoseError(
            f"{session.subject.name} returns no floating-point tensor, so there is no Jacobian; "
            "return the tensor that is differentiated."
        )
    for k, out in enumerate(run.floats):
        _require_size(as_real(out).numel(), f"output {k} of {session.subject.name}")
    return run


def _require_size(count: int, what: str) -> None:
    if count > MOST_ELEMENTS:
        raise CannotDiagnoseError(
            f"{what} has {count:,} elements, and each costs a pass. Pass a smaller example with at "
            f"most {MOST_ELEMENTS}: the pattern is the same."
        )
    if not count:
        raise CannotDiagnoseError(
            f"{what} is empty, so its Jacobian is too; pass an example with elements."
        )


def _chosen(run: Run, of: int | None) -> Sequence[int]:
    places = range(len(run.floats))
    if of is None:
        return places
    if isinstance(of, bool) or not isinstance(of, int) or of not in places:
        raise CannotDiagnoseError(
            f"there is no output {of!r}: {len(places)} can carry a gradient, counted from 0."
        )
    return [of]


def _pairs(
    session: Session, run: Run, known: Run | None, outputs: Sequence[int]
) -> Iterator[Jacobians]:
    answers = _rows(run, session.subject)
    expected = None if known is None else _rows(known, session.subject)
    starts = [0]
    for out in run.floats:
        starts.append(starts[-1] + as_real(out).numel())
    for slot, place in enumerate(session.wanted):
        value, backward = session.inputs[place], answers[slot]
        if expected is None:
            differences, error = _by_differences(session, place)
        elif expected[slot].shape == backward.shape:
            differences, error = expected[slot], torch.zeros_like(backward)
        else:
            raise CannotDiagnoseError(
                "the reference returns other shapes than the function it is for."
            )
        columns = axis(session.subject.parameters[place], value, torch.arange(backward.shape[1]))
        for k in outputs:
            here, name = slice(starts[k], starts[k + 1]), f"output {k}"
            rows = axis(
                name if len(run.floats) > 1 else "output",
                run.floats[k],
                torch.arange(here.stop - here.start),
            )
            off = disagreement(backward[here], differences[here], error[here])
            whole = (len(rows.places), len(columns.places))
            yield jacobians(rows, columns, whole, differences[here], backward[here], off)


def _rows(run: Run, subject: Subject) -> tuple[Tensor, ...]:
    """Compute a Jacobian for each leaf from one-hot cotangents.

    Each Jacobian has one row per output element.
    """
    count = sum(as_real(out).numel() for out in run.floats)
    found = _done(lambda: [one_row(run, i) for i in range(count)], subject, "backward")
    return tuple(torch.stack(rows).cpu() for rows in zip(*found, strict=True))


def _by_differences(session: Session, place: int) -> tuple[Tensor, Tensor]:
    """Return the Jacobian with respect to one input, with NaN at kinks, and its estimated error."""
    whole, found = session.inputs[place], []
    count = as_real(whole).numel()
    for start in range(0, count, MOST_COLUMNS):
        part = slice(start, min(start + MOST_COLUMNS, count))

        def values(given: Sequence[Any], part: slice = part) -> Tensor:
            args = [v.clone() if isinstance(v, Tensor) else v for v in session.inputs]
            as_real(args[place]).view(-1)[part] = given[0]
            with torch.no_grad():
                return flat([out for out in session.call(args, watched=False) if is_float(out)])

        def columns(part: slice = part, values: Any = values) -> Any:
            piece = as_real(whole).reshape(-1)[part]
            (piece_columns,) = jacobian(values, [piece], [0], generator(_SEED))
            return piece_columns

        found.append(_done(columns, session.subject, "forward"))
    smooth = torch.cat([columns.smooth for columns in found])
    matrix = torch.cat([columns.matrix.cpu() for columns in found], 1)
    error = torch.cat([columns.error.cpu() for columns in found], 1)
    return torch.where(smooth, matrix, torch.nan), error


def _done(call: Callable[[], T], subject: Subject, what: str) -> T:
    """Return the result of a call to the user's code.

    If the call raises, raise an error with an explanation.
    """
    result = attempt(call)
    if isinstance(result, Failure):
        first = (result.text.splitlines() or [""])[0].rstrip(".")
        raise CannotDiagnoseError(f"the {what} of {subject.name} raised {result.kind}: {first}.")
    return result


# --------------------------------------------------------------------------------------------------
# Two Jacobians and their difference as small heat maps, in HTML without scripts.
#
# The pictures have the same bytes on every machine. Entries are rounded to a few shades, and
# nothing is compressed, because compressors differ. They are PNGs because JupyterLab removes SVGs
# from notebooks that it does not trust. Zero is transparent, and small entries are nearly
# transparent, so the maps suit both light and dark pages.
# --------------------------------------------------------------------------------------------------

TITLES = ("finite differences of forward", "backward", "backward − finite differences")
SHADES = 8  # shades for each sign
UNKNOWN = 2 * SHADES + 1  # the last color of the palette, for entries without a derivative
# Okabe and Ito's blue and vermilion, which color-blind readers can distinguish, on white and on
# black.
NEGATIVE, POSITIVE, GRAY = (0, 114, 178), (213, 94, 0), (138, 143, 152)
NEGLIGIBLE = 1e-6  # relative to the largest entry: smaller entries are shown as zero
_EXTENT, _CELL = 336, 28  # maximum sizes in pixels on the page: of a map, and of one entry
_BORDER = "border: 1px solid #8a8f98"
# If a report is at least 480 px wide, its maps share a row. Otherwise, each map asks for more than
# a row, so it gets a row of its own.
_ROW = "flex: 1 1 calc((480px - 100%) * 999)"
# size of the picture in pixels; with several pixels per entry, the edges stay sharp when a page
# scales the picture
_PIXELS = 48


def as_html(pair: Jacobians) -> str:
    """Return the pictures of the three matrices side by side, with captions and a legend."""
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
    """Return a matrix as a PNG picture. An entry of magnitude ``largest`` is fully opaque."""
    height, width = len(matrix), len(matrix[0])
    side = max(1, _PIXELS // max(height, width))
    colors = (bytes(shade(entry, largest) for entry in row) for row in matrix)
    lines = (side * (b"\0" + b"".join(side * bytes([color]) for color in row)) for row in colors)
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", side * width, side * height, 8, 3, 0, 0, 0),
        b"PLTE": b"".join(bytes(color) for color, _ in palette()),
        b"tRNS": bytes(opacity for _, opacity in palette()),
        b"IDAT": _stored(b"".join(lines)),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts.items())


def _stored(data: bytes) -> bytes:
    """Return data in zlib format, as a single uncompressed block."""
    length = struct.pack("<BHH", 1, len(data), len(data) ^ 0xFFFF)
    return b"\x78\x01" + length + data + struct.pack(">I", zlib.adler32(data))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def palette() -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield colors and opacities (0 to 255), from the most negative to the most positive shade.

    Zero is in the middle. Gray comes last.
    """
    opacities = [round(255 * (0.3 + 0.7 * k / (SHADES - 1))) for k in range(SHADES)]
    yield from ((NEGATIVE, opacity) for opacity in reversed(opacities))
    yield (0, 0, 0), 0
    yield from ((POSITIVE, opacity) for opacity in opacities)
    yield GRAY, 255


def shade(entry: float, largest: float) -> int:
    """Return an entry's index in the palette. Every entry that is not negligible gets a color."""
    if math.isnan(entry):
        return UNKNOWN
    if abs(entry) <= NEGLIGIBLE * largest:
        return SHADES
    # Round twice, because the last digits near one half differ between machines.
    share = round(min(abs(entry) / largest, 1.0) * SHADES, 6) if largest else SHADES
    return SHADES + int(math.copysign(max(1, round(share)), entry))


def largest_of(matrix: Matrix) -> float:
    """Return the largest finite magnitude, or 0 if there is none."""
    return max((abs(v) for row in matrix for v in row if math.isfinite(v)), default=0.0)


def heading(pair: Jacobians) -> str:
    """Return a heading that names the Jacobian and the part that the picture shows."""
    rows, columns = len(pair.off), len(pair.off[0])
    part = "" if (rows, columns) == pair.whole else f" (the first {rows} × {columns} entries)"
    height, width = pair.whole
    return f"The {height} × {width} Jacobian of {pair.output} with respect to {pair.input}{part}"


def _map(pair: Jacobians, matrix: Matrix, largest: float, title: str) -> str:
    data = b64encode(png(matrix, largest)).decode()
    width, height = (min(_CELL, _EXTENT // n) * n for n in (len(matrix[0]), len(matrix)))
    alt = escape(f"{heading(pair)}, {title}: {filling(matrix)}")
    look = f"max-width: 100%; height: auto; image-rendering: pixelated; {_BORDER}"
    return (
        f'<div style="{_ROW}; max-width: {_EXTENT + 2}px">'
        f'<img src="data:image/png;base64,{data}" alt="{alt}" width="{width}" height="{height}" '
        f'style="{look}">'
        f"<div>{escape(title)}</div>"
        f'<div style="font-size: 0.9em">{escape(filling(matrix))}</div></div>'
    )


def filling(matrix: Matrix) -> str:
    """Describe where a matrix is nonzero, and how large its entries are."""
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
    meanings = [(f"rgb{NEGATIVE}", "negative"), ("none", "zero"), (f"rgb{POSITIVE}", "positive")]
    if any(math.isnan(v) for row in pair.off for v in row):
        meanings.append((f"rgb{GRAY}", "not differentiable"))
    square = f"display: inline-block; width: 0.8em; height: 0.8em; {_BORDER}"
    return "".join(
        f'<span style="margin-right: 1.5em"><span style="{square}; background: {color}"></span>'
        f" {meaning}</span>"
        for color, meaning in meanings
    )
