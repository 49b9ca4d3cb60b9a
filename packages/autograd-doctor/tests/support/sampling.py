"""How many rows of a long table every run takes; ``make thorough`` takes the others."""

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
    """Return the rows of a table; those beyond the first few of a kind are for a thorough run.

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
