"""How much of the tests a run takes.

``make thorough`` alone runs what is marked so: rows of long tables beyond the first few of a kind,
and what other people's packages and platforms have to say. ``make quick`` is for the minute between
two edits: of every table some rows, and nothing that starts processes or a browser.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
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


# These start processes, build, train, or look at what lies outside the package.
LEFT_OUT = (
    "*_js.py", "*browser*.py", "test_attention*.py", "test_authoring.py", "test_benchmarks.py",
    "test_book.py", "test_building.py", "test_cheat_sheet.py", "test_check.py", "test_checkup.py",
    "test_classroom_*.py", "test_colab*.py", "test_compare_flows.py", "test_facts*.py",
    "test_fuzz*.py", "test_heatmap.py", "test_hints.py", "test_lab_launcher.py", "test_memory*.py",
    "test_messages.py", "test_nbval.py", "test_order.py", "test_pages.py", "test_picture.py",
    "test_pictures.py", "test_practice.py", "test_progress.py", "test_readme.py",
    "test_realistic.py", "test_ship*.py", "test_ste_lab.py", "test_testing.py",
    "test_third_party.py", "test_tiles.py", "test_trials.py", "test_warmkernels.py",
    "test_watch.py", "test_wheel.py",
)  # fmt: skip


def left_out(path: Path) -> bool:
    return any(path.match(pattern) for pattern in LEFT_OUT)


def sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return some rows of each test's table, spread over it."""
    rows: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        rows[item.nodeid.partition("[")[0]].append(item)
    return [item for table in rows.values() for item in _spread(table)]


def _spread(table: list[pytest.Item]) -> list[pytest.Item]:
    return table[:: max(1, len(table) // ROWS)][:ROWS]
