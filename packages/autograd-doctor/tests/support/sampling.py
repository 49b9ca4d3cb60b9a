"""Select the rows of a long table for every run. ``make thorough`` also runs the other rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest

ROWS = 3

Row = TypeVar("Row")


def first_rows(
    table: Iterable[Row],
    kind: Callable[[Row], Hashable] = lambda _: None,
    most: int = ROWS,
    unpack: bool = False,
) -> list[Any]:
    """Return the rows of a table. A normal run uses only the first rows of each kind.

    With ``unpack``, each value of a row is an argument of the test.
    """
    seen: Counter[Hashable] = Counter()
    rows = []
    for row in table:
        seen[kind(row)] += 1
        values = row if unpack and isinstance(row, tuple) else (row,)
        marks = pytest.mark.thorough if seen[kind(row)] > most else ()
        rows.append(pytest.param(*values, marks=marks))
    return rows
