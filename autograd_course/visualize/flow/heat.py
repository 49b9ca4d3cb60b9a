"""Heat maps as text: one character a cell, so that a sweep can carry hundreds of them.

``.`` is zero, ``a`` … ``f`` are positive and ``A`` … ``F`` negative sixths of the largest
magnitude in the map, and ``!`` is nan or infinite. A negative cell is drawn with a dash: the
sign is never told by color alone.
"""

import math
from collections.abc import Iterator

from autograd_course.visualize.flow.reading import Heat

LEVELS = 6
_UP, _DOWN = "abcdef", "ABCDEF"
CELL, SMALL_CELL, _WIDE = 7.0, 5.0, 8  # pixels a cell; small ones in maps of more columns


def coded(heat: Heat) -> str:
    """Write a heat map's levels, row by row."""
    largest = max((abs(cell) for cell in heat.cells if math.isfinite(cell)), default=0.0)
    return "".join(_letter(cell, largest) for cell in heat.cells)


def _letter(cell: float, largest: float) -> str:
    if not math.isfinite(cell):
        return "!"
    if cell == 0 or largest == 0:
        return "."
    # A hair less than the quotient: the last digits of two machines' results differ.
    level = max(1, math.ceil(LEVELS * abs(cell) / largest - 1e-6))
    return (_UP if cell > 0 else _DOWN)[level - 1]


def shade(letter: str) -> tuple[str, float]:
    """Return the look of a cell (as in :mod:`marks`), and how opaque it is, from 0 to 1."""
    if letter in _UP:
        return "plus", (_UP.index(letter) + 1) / LEVELS
    if letter in _DOWN:
        return "minus", (_DOWN.index(letter) + 1) / LEVELS
    return ("broken", 1.0) if letter == "!" else ("zero", 0.0)


def cell_size(columns: int) -> float:
    """Return the side of a cell on a card, in pixels."""
    return CELL if columns <= _WIDE else SMALL_CELL


def cells(code: str, columns: int, x: float, y: float) -> Iterator[tuple[float, float, str]]:
    """Yield the upper left corner of each cell and its letter."""
    side = cell_size(columns)
    for i, letter in enumerate(code):
        yield x + i % columns * side, y + i // columns * side, letter
