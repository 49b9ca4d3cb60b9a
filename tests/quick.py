"""Which tests ``make quick`` runs: some rows of every table, and nothing that starts processes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

ROWS = 3

# These start processes, build, train, or look at what lies outside the package.
LEFT_OUT = (
    "*_js.py", "*browser*.py", "test_attention*.py", "test_authoring.py", "test_benchmarks.py",
    "test_book.py", "test_building.py", "test_cheat_sheet.py", "test_check.py", "test_checkup.py",
    "test_classroom_*.py", "test_colab*.py", "test_compare_flows.py", "test_facts*.py",
    "test_fuzz*.py", "test_heatmap.py", "test_hints.py", "test_lab_launcher.py", "test_memory*.py",
    "test_messages.py", "test_nbval.py", "test_order.py", "test_pages.py", "test_picture.py",
    "test_pictures.py", "test_practice.py", "test_progress.py", "test_pytest_plugin.py",
    "test_readme.py", "test_realistic.py", "test_run.py", "test_ship*.py", "test_ste_lab.py",
    "test_testing.py", "test_third_party.py", "test_tiles.py", "test_trials.py",
    "test_warmkernels.py", "test_watch.py", "test_wheel.py",
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
