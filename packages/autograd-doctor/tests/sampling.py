"""How many rows of a long table every run takes; ``make thorough`` takes the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import pytest

ROWS = 3

Row = TypeVar("Row")


def first_rows(
    table: Iterable[Row], kind: Callable[[Row], Hashable], most: int = ROWS
) -> list[Any]:
    """Return the rows of a table; those beyond the first few of a kind are for a thorough run."""
    seen: Counter[Hashable] = Counter()
    return [_marked(row, seen, kind(row), most) for row in table]


def _marked(row: Row, seen: Counter[Hashable], kind: Hashable, most: int) -> Any:
    seen[kind] += 1
    return pytest.param(row, marks=pytest.mark.thorough if seen[kind] > most else ())
