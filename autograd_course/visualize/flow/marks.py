"""Encode gradients and small tensors as short strings, for the drawings and the page."""

import math
from collections.abc import Iterator

from autograd_course.visualize.flow.trace import Heat, Reading
from autograd_course.visualize.kit.formatting import Summary, number

# --- Marks ----------------------------------------------------------------------------------------
# The size of a gradient is its Euclidean norm, divided by the norm of the gradient at the loss,
# which is 1 for a scalar loss. A gradient *vanishes* below a millionth (``VANISHING``), because it
# no longer changes float32 parameters of typical size. It *explodes* above ten thousand
# (``EXPLODING``), because one step with a typical learning rate destroys the parameters. Zero has
# its own mark, and so do nan and infinity.

VANISHING, EXPLODING = 1e-6, 1e4
_LEAST, _MOST = 1e-8, 1e2  # the sizes at length zero and at full length, on a logarithmic scale
_THIN, _THICK = 1.0, 4.0  # the width of an edge in pixels
LOOKS = {"+": "plus", "-": "minus", "±": "mixed", "0": "zero", "!": "broken"}


def mark(gradient: Summary | None, unit: float) -> str:
    """Encode a gradient's sign and length in percent. ``+80`` means as large as at the loss."""
    if not isinstance(gradient, Reading) or gradient.sign == "0":
        return "0"
    if gradient.sign == "!":
        return "!100"
    share = math.log(max(gradient.norm / unit, _LEAST) / _LEAST) / math.log(_MOST / _LEAST)
    return f"{gradient.sign}{round(100 * min(1.0, share))}"


def length(written: str) -> float:
    """Return the length of a mark, from 0 to 1."""
    return int(written[1:] or 0) / 100


def look(written: str) -> str:
    """Return the name of the style for a mark."""
    return LOOKS[written[0]]


def thickness(written: str) -> float:
    """Return the width of an edge with this mark, in pixels."""
    return round(_THIN + (_THICK - _THIN) * length(written), 2)


def flag(gradient: Summary | None, unit: float) -> str:
    """Return a warning of one or two words about a gradient's norm, or ``""``."""
    if not isinstance(gradient, Reading):
        return ""
    if gradient.sign == "!":
        return "✕ nan or inf"
    share = gradient.norm / unit
    if share > EXPLODING:
        return "▲ exploding"
    return "▼ vanishing" if 0 < share < VANISHING else ""


def size(gradient: Summary | None, unit: float) -> str:
    """Return a phrase that compares the norm of a gradient with the norm at the loss."""
    if gradient is None:
        return "no gradient arrives, so nothing before it learns from this path"
    if not isinstance(gradient, Reading):
        return "unknown"
    if gradient.sign == "!":
        things = "1 element is" if gradient.broken == 1 else f"{gradient.broken} elements are"
        return f"{things} nan or infinite, and so is every sum with this gradient"
    if gradient.sign == "0":
        return "zero in every element, so nothing before it learns from this path"
    text = f"|∂| is {number(gradient.norm / unit, 3)} × that of the loss"
    word = flag(gradient, unit)
    return f"{text}: {word[2:]}" if word else text


# --- Heat maps ------------------------------------------------------------------------------------
# ``a`` … ``f`` are one to six sixths of the largest magnitude in the map, and ``A`` … ``F`` are the
# same levels for negative elements. ``.`` is zero, and ``!`` is nan or infinite. A dash marks each
# negative cell, so that color is not the only cue for the sign.

LEVELS = 6
_UP, _DOWN = "abcdef", "ABCDEF"
# The size of a cell in pixels. Cells are small if there are more than ``_WIDE`` columns.
CELL, SMALL_CELL, _WIDE = 7.0, 5.0, 8


def coded(heat: Heat) -> str:
    """Encode the levels of a heat map as characters, row by row."""
    largest = max((abs(cell) for cell in heat.cells if math.isfinite(cell)), default=0.0)
    return "".join(_letter(cell, largest) for cell in heat.cells)


def _letter(cell: float, largest: float) -> str:
    if not math.isfinite(cell):
        return "!"
    if cell == 0 or largest == 0:
        return "."
    # Subtract a little from the quotient, because its last digits differ between machines.
    level = max(1, math.ceil(LEVELS * abs(cell) / largest - 1e-6))
    return (_UP if cell > 0 else _DOWN)[level - 1]


def shade(letter: str) -> tuple[str, float]:
    """Return the style of a cell (as in :func:`look`), and its opacity from 0 to 1."""
    if letter in _UP:
        return "plus", (_UP.index(letter) + 1) / LEVELS
    if letter in _DOWN:
        return "minus", (_DOWN.index(letter) + 1) / LEVELS
    return ("broken", 1.0) if letter == "!" else ("zero", 0.0)


def cell_size(columns: int) -> float:
    """Return the side length of a heat-map cell on a card, in pixels."""
    return CELL if columns <= _WIDE else SMALL_CELL


def cells(code: str, columns: int, x: float, y: float) -> Iterator[tuple[float, float, str]]:
    """Yield the upper left corner of each cell and its letter."""
    side = cell_size(columns)
    for i, letter in enumerate(code):
        yield x + i % columns * side, y + i // columns * side, letter
