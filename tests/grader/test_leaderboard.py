"""Measurements of attention: which ones are listed and kept, and the bytes that they count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from autograd_doctor import Finding
from torch import Tensor

from autograd_course.execution import Computed
from autograd_course.functions import ScaledDotProductAttention
from autograd_course.grader.checks import makes_at_most, on
from autograd_course.grader.leaderboard import BUILT_IN, leaderboard
from autograd_course.learner.state import Measurement, State, UnreadableStateError

SMALL = {"heads": 1, "length": 16, "width": 4}


def missing(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    raise NotImplementedError


def broken(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    raise ValueError("no")


def test_entrants_are_listed_beside_the_built_in_and_a_missing_one_says_so() -> None:
    entrants = {"mine": ScaledDotProductAttention, "later": missing, "bad": broken}
    board = leaderboard(entrants, **SMALL)
    rows = {row.name: row.cells for row in board.rows}

    assert set(rows) == {BUILT_IN, *entrants}
    assert rows["later"][1] == "not written yet"
    assert rows["bad"][1] == "raises ValueError"
    assert rows["mine"][-1] == "1"
    assert "MiB" in repr(board)
    assert "<td" in board._repr_html_()


def test_every_run_is_kept_and_the_best_time_stays(progress_file: Path) -> None:
    for _ in range(3):
        board = leaderboard({"mine": ScaledDotProductAttention}, **SMALL)
    mine = next(row for row in board.rows if row.name == "mine")

    assert len(mine.history) == 3
    assert len(json.loads(progress_file.read_text())["measurements"]) == 2


def test_a_state_keeps_the_latest_runs_through_json() -> None:
    state = State()
    for number in range(60):
        state = state.measured("a", Measurement(float(number), number))
    again = State.from_json(json.loads(json.dumps(state.to_json())))

    assert again == state
    assert len(again.measurements["a"]) == 50
    assert again.measurements["a"][-1] == Measurement(59.0, 59)


@pytest.mark.parametrize("run", [{"milliseconds": "fast", "peak_bytes": 1}, {"peak": 1}, 3])
def test_a_damaged_measurement_is_said(run: Any) -> None:
    data = {**State().to_json(), "measurements": {"a": [run]}}

    with pytest.raises(UnreadableStateError):
        State.from_json(data)


def test_the_largest_tensor_counts_in_forward_and_in_backward() -> None:
    q, k, v = (torch.randn(32, 4, dtype=torch.float64) for _ in range(3))
    check = makes_at_most(lambda *inputs: 32 * 4 * 8, "as much as q")
    found = on(lambda rng: (q, k, v), check)(ScaledDotProductAttention, ())

    assert isinstance(found, Finding)
    assert found.rule == "oversaved"
    assert found.evidence["shape"] == (32, 32)
    large = makes_at_most(lambda *inputs: 2**20, "")
    assert isinstance(on(lambda rng: (q, k, v), large)(ScaledDotProductAttention, ()), Computed)
