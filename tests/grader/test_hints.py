from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograd_course.grader import CATALOGUE, hint

pytestmark = pytest.mark.slow

SQUARE = CATALOGUE["square"]


def test_hints_come_one_at_a_time_and_the_last_one_stays() -> None:
    shown = [hint("square") for _ in range(4)]

    assert [h.number for h in shown] == [1, 2, 3, 3]
    assert [h.text for h in shown] == [*SQUARE.hints, SQUARE.hints[-1]]
    assert "the last hint; reread lesson 01" in str(shown[-1])


def test_each_exercise_has_its_own_stage() -> None:
    hint("square")

    assert hint("linear").number == 1


def test_a_new_kernel_goes_on_where_the_old_one_stopped(progress_file: Path) -> None:
    hint("square")
    code = "from autograd_course import hint; print(hint('square').number)"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "AUTOGRAD_COURSE_PROGRESS": str(progress_file)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert answer.stdout == "2\n"


def test_a_hint_reads_well() -> None:
    assert str(hint("repair-cube")) == (
        "Repair: cube · hint 1 of 3\n"
        "  Give the broken Function the loss 5·y instead of y. Every gradient should become five\n"
        "  times as large. Does it? How could backward know about the 5?\n"
        '  next     call hint("repair-cube") again for a more specific hint'
    )
    assert "hint 2 of 3" in hint("repair-cube")._repr_html_()


def test_an_unknown_id_is_answered_with_the_closest() -> None:
    assert 'did you mean "square"?' in str(hint("sqare"))


def test_hints_go_on_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOGRAD_COURSE_PROGRESS", str(tmp_path / "file" / "progress.json"))

    assert [hint("square").number for _ in range(2)] == [1, 2]
    assert "cannot be saved" in str(hint("square"))
