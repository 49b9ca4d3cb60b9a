"""Exercise files that are selected, graded and restored from a shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from exercise_files import (
    EXITS,
    HALF,
    LESSON,
    SQUARE,
    UNFINISHED,
    answered,
    course,
    line_of,
)
from repository import ROOT
from typer.testing import CliRunner, Result

from autograd_course.cli import app
from autograd_course.grader import grade, progress
from autograd_course.grader.verdict import failed
from autograd_course.practice import resetting, running
from autograd_course.practice.reading import Task, reading
from autograd_course.practice.running import Graded, graded_as
from autograd_course.practice.targets import TargetError, target

pytestmark = pytest.mark.slow

DONE, NOT_SO, NOT_UNDERSTOOD, NOT_EXAMINED = range(4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a course folder with the unsolved exercises of one lesson."""
    (tmp_path / "course").mkdir()
    monkeypatch.chdir(course(tmp_path / "course"))
    return tmp_path / "course"


@pytest.fixture
def script(folder: Path) -> Path:
    return folder / "exercises" / f"{LESSON}.py"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run answers in this process, because a test runner with threads must not fork a child."""

    class Here:
        def __init__(self, task: Task) -> None:
            self.task = task

        def wait(self, _seconds: float) -> Graded:
            return running.graded(self.task)

        def stop(self) -> None:
            pass

    monkeypatch.setattr(running, "Grading", Here)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})


def said(result: Result) -> str:
    """Return the output as one line, without the frame around an error."""
    assert "Traceback" not in result.output
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


# What a learner may type


@pytest.mark.parametrize(
    ("word", "where", "only"),
    [
        ("01", ".", ()),
        ("1", "exercises", ()),
        (LESSON, "notebooks", ()),
        ("square", ".", ("square",)),
        ("Scaled_Sigmoid", ".", ("scaled-sigmoid",)),
        (f"exercises/{LESSON}.py", ".", ()),
        (f"{LESSON}.ipynb", ".", ()),
    ],
)
def test_a_target_is_found(word: str, where: str, only: tuple[str, ...], folder: Path) -> None:
    found = target(word, here=folder / where)

    assert found.latest in {folder / "exercises" / f"{LESSON}{kind}" for kind in (".py", ".ipynb")}
    assert (found.lesson, found.only) == (LESSON, only)


@pytest.mark.parametrize(
    ("word", "exercises", "sentence"),
    [
        ("sqare", (), "there is no lesson, file or exercise 'sqare'; did you mean square?"),
        ("01", ("liner",), "there is no exercise 'liner'; did you mean linear?"),
        ("01", ("gelu",), f"gelu is an exercise of 03_gradient_patterns, not of {LESSON}."),
        ("01_tempate.py", (), f"there is no file 01_tempate.py; did you mean {LESSON}.py?"),
        ("02", (), "there is no 02_ctx_rules.py or 02_ctx_rules.ipynb here. Change into your copy"),
        ("02", (), "or get one with git clone https://github.com/"),
    ],
)
def test_a_target_that_is_none_is_one_sentence(
    word: str, exercises: Sequence[str], sentence: str, folder: Path
) -> None:
    with pytest.raises(TargetError, match=re.escape(sentence)):
        target(word, exercises, here=folder)

    options = [part for each in exercises for part in ("--exercise", each)]
    for command in ("grade", "watch", "reset"):
        if (folder / "exercises").exists():  # if no folder above belongs to the course
            result = run(command, word, *options)
            assert (result.exit_code, sentence in said(result)) == (NOT_UNDERSTOOD, True)


def test_of_two_files_the_one_saved_last_is_graded(script: Path) -> None:
    for path, when in ((script, 100), (script.with_suffix(".ipynb"), 200)):
        os.utime(path, (when, when))
    assert target("01").latest == script.with_suffix(".ipynb")
    os.utime(script, (300, 300))
    assert target("01").latest == script


# The results of an answer

OUTCOMES = {
    "right": (SQUARE, "✓ Square · passed"),
    "wrong": (HALF, "at       return x * grad_output"),
    "of another name": (SQUARE.replace("Square", "Other"), "the cell does not define Square"),
    "no Python": (UNFINISHED, "Line {9} (`(x,) = (ctx.saved_tensors`) is not Python: '('"),
    "raises": (f"{SQUARE}\nSquare.aply\n", "attribute 'aply' (line {12}: `Square.aply`)."),
    "exits": (f"raise SystemExit\n{SQUARE}", "The cell raises SystemExit: without a message (line"),
    "raises in forward": (
        SQUARE.replace("x * x", "no * x"), "`forward` raises NameError: name 'no' is not",
    ),
    "with calls of the course in it": (
        SQUARE.replace("class", 'hint("square")\n\nclass', 1) + "\nSquare.aply\n",
        "attribute 'aply' (line {14}: `Square.aply`).",
    ),
    "with a helper above": (SQUARE.replace("2 * x", "twice(x)"), "✓ Square · passed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", OUTCOMES)
@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
def test_an_answer_is_told_as_in_a_notebook_with_the_line_of_the_file(
    kind: str, suffix: str, script: Path
) -> None:
    answer, shown = OUTCOMES[kind]
    text = answered(script.read_text(), "square", answer)
    text = text.replace("# %% [markdown]", "# %%\ndef twice(x):\n    return 2 * x\n\n# %%", 1)
    path, data = saved(script, text, suffix)

    (task,) = reading(path, data, target("square")).tasks
    told = running.graded(task).text.replace("\n" + 11 * " ", " ").replace("\n  ", " ")

    begins = line_of(text, "square") if suffix == ".py" else 1
    expected = re.sub(r"\{(\d+)\}", lambda n: str(begins + int(n[1]) - 1), shown)
    assert expected in told


def saved(script: Path, text: str, suffix: str) -> tuple[Path, bytes]:
    """Return a file with a script, or with the notebook that has its cells, and its content."""
    import jupytext

    notebook = nbformat.writes(jupytext.reads(text, fmt="py:percent"))
    path = script.with_suffix(suffix)
    data = (text if suffix == ".py" else notebook).encode()
    path.write_bytes(data)
    return path, data


def test_progress_is_kept_as_in_a_notebook_and_code_that_does_not_run_is_no_attempt(
    script: Path,
) -> None:
    text = script.read_text()
    for answer in (UNFINISHED, HALF, SQUARE):
        data = answered(text, "square", answer).encode()
        (task,) = reading(script, data, target("square")).tasks
        running.graded(task)

    record = progress().state["square"]
    assert (record.status, record.attempts, dict(record.rules)) == (
        "passed", 2, {"constant-factor": 1},
    )  # fmt: skip


# The command grade


def test_a_file_is_graded_each_answer_in_a_process_of_its_own(script: Path) -> None:
    text = answered(script.read_text(), "square", f"print('tried')\n{SQUARE}")
    text = answered(text, "scaled-sigmoid", EXITS)
    script.write_text(answered(text, "weighted-sum", UNFINISHED))
    words = [
        "grade",
        "01",
        "--exercise",
        "square,scaled-sigmoid,weighted-sum",
        "--exercise",
        "linear",
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "autograd_course.cli", *words], capture_output=True, text=True
    )

    assert ran.returncode == NOT_SO, ran.stderr
    assert ran.stderr == "tried\n"
    assert re.findall(r"^[✓✗○] .*", ran.stdout, re.M) == [
        "✓ Square · passed · 1 of 1 point",
        "✗ Scaled sigmoid · wrong · 0 of 2 points",
        "✗ Weighted sum · wrong · 0 of 2 points",
        "○ Linear with optional bias · not attempted · 0 of 3 points",
    ]
    assert "Your code ended its own process (exit code 3)." in ran.stdout
    assert "autograd-course hint linear gives the next hint" in ran.stdout
    assert ran.stdout.endswith(f"{LESSON}.py · 1 of 4 passed · 1 of 8 points\n")


@pytest.mark.parametrize(("answer", "code"), [(SQUARE, DONE), (HALF, NOT_SO)])
@pytest.mark.usefixtures("here")
def test_the_exit_code_and_the_json_tell_the_outcome(answer: str, code: int, script: Path) -> None:
    script.write_text(answered(script.read_text(), "square", answer))
    result = run("grade", "square", "--json")
    (found,) = json.loads(result.stdout)["exercises"]

    assert result.exit_code == code
    assert found["exercise"] == "square"
    assert found["status"] == ("passed" if code == DONE else "wrong")
    assert found["rule"] == ("" if code == DONE else "constant-factor")
    assert found["message"]


@pytest.mark.usefixtures("here")
def test_a_failure_of_the_grader_is_not_the_learner_s(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = lambda task: graded_as(running.result_of(running.CATALOGUE["square"], failed("x")))  # noqa: E731
    monkeypatch.setattr(running, "graded", broken)

    assert run("grade", "square").exit_code == NOT_EXAMINED


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"cells": [', "its JSON is invalid at line 1. Save the notebook again"),
        (b"", "its JSON is invalid at line 1"),
        (b'{"cells": []}', "the file contains no code"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_file_that_cannot_be_read_is_one_sentence(
    content: bytes, sentence: str, script: Path
) -> None:
    script.with_suffix(".ipynb").write_bytes(content)
    result = run("grade", f"{LESSON}.ipynb")

    assert result.exit_code == NOT_UNDERSTOOD
    assert f"{LESSON}.ipynb cannot be graded: {sentence}" in said(result)


def test_what_is_no_python_elsewhere_in_the_file_is_said_with_its_line(script: Path) -> None:
    text = answered(script.read_text(), "linear", "class Linear(:")
    found = reading(script, text.encode(), target("01", ["square"]))

    begins = line_of(text, "linear")
    assert found.broken == (
        f"a cell that begins at line {begins} is not Python, line 1: invalid syntax "
        "(it begins `class Linear(:`)",
    )


# The command reset


BUILD = resetting._built


@cache
def built_once() -> Any:
    return BUILD(ROOT, LESSON)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the notebook once for all tests, because all copies of the course have the same
    solution.
    """
    monkeypatch.setattr(resetting, "_built", lambda root, lesson: built_once())


def contents(script: Path) -> list[bytes]:
    return [script.with_suffix(suffix).read_bytes() for suffix in (".py", ".ipynb")]


def kept(script: Path) -> list[Path]:
    return sorted(script.parent.glob("*.before-reset-*"))


@pytest.mark.usefixtures("built")
def test_what_is_untouched_or_only_run_stays_as_it_is(script: Path) -> None:
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    notebook.cells[1].outputs = []
    nbformat.write(notebook, script.with_suffix(".ipynb"))
    before = contents(script)
    result = run("reset", "01")

    assert (result.exit_code, contents(script), kept(script)) == (DONE, before, [])
    assert f"{LESSON}.py is already the original." in result.output


@pytest.mark.usefixtures("built")
def test_a_notebook_is_put_back_and_nothing_is_ever_lost(script: Path) -> None:
    shipped = contents(script)
    tried = [answered(shipped[0].decode(), "square", answer).encode() for answer in (HALF, SQUARE)]
    for work in tried:
        script.write_bytes(work)
        result = run("reset", "01")
        assert result.exit_code == DONE
        assert contents(script) == shipped

    names = [f"{LESSON}.before-reset-{date.today()}-{n}.py" for n in (1, 2)]
    assert [path.name for path in kept(script)] == names
    assert [path.read_bytes() for path in kept(script)] == tried
    assert f"Restored {LESSON}.py. Your version is saved as {names[1]}." in result.output


@pytest.mark.usefixtures("built")
def test_one_exercise_is_put_back_in_both_files_and_the_others_stay(script: Path) -> None:
    text = answered(script.read_text(), "square", SQUARE)
    text = answered(text, "linear", "mine = 1")
    for suffix in (".py", ".ipynb"):
        saved(script, text, suffix)
    assert run("reset", "square").exit_code == DONE

    for path in (script, script.with_suffix(".ipynb")):
        found = reading(path, path.read_bytes(), target("01"))
        answers = {task.answer.exercise: task.answer.source for task in found.tasks}
        assert "raise NotImplementedError" in answers["square"]
        assert answers["linear"] == "mine = 1"
    assert len(kept(script)) == 2


def test_a_file_that_is_missing_is_made_again(script: Path) -> None:
    shipped = script.read_bytes()
    script.unlink()
    script.with_suffix(".ipynb").write_text("no notebook")
    result = run("reset", "01")

    assert result.exit_code == DONE
    assert script.read_bytes() == shipped
    assert [path.read_text() for path in kept(script)] == ["no notebook"]
    assert "which was missing" in result.output


@pytest.mark.usefixtures("built")
def test_progress_is_left_unless_it_is_to_go(script: Path) -> None:
    grade("square", None)
    assert (
        "Your progress is unchanged. Use --progress to delete it too." in run("reset", "01").output
    )
    assert "square" in progress().state.exercises

    assert "Deleted the results" in run("reset", "01", "--progress").output
    assert "square" not in progress().state.exercises


def spoil(folder: Path, how: str) -> None:
    script = folder / "exercises" / f"{LESSON}.py"
    if how == "no solutions":
        (folder / "solutions" / f"{LESSON}.py").unlink()
    elif how == "no cell":
        script.write_text("# %%\nmine = 1\n")


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("no solutions", f"from solutions/{LESSON}.py, and"),
        ("no solutions", "complete copy of the course with git clone https://github.com/"),
        ("no packages", "that are not installed: pip install jupytext nbformat ruff"),
        ("no cell", f"{LESSON}.py has no cell 'square'. Reset the whole notebook, without --exer"),
    ],
)
@pytest.mark.usefixtures("built")
def test_what_cannot_be_put_back_is_one_sentence_and_changes_nothing(
    how: str, sentence: str, folder: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(folder, how)
    if how == "no packages":
        monkeypatch.setattr("autograd_course.practice.resetting.find_spec", lambda name: None)
    before = contents(script)
    result = run("reset", "square")

    assert result.exit_code == NOT_SO
    assert sentence in said(result)
    assert (contents(script), kept(script)) == (before, [])


@pytest.mark.usefixtures("built")
def test_a_disk_that_is_full_leaves_the_work_where_it_is(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "disk")

    work = answered(script.read_text(), "square", SQUARE)
    script.write_text(work)
    monkeypatch.setattr(resetting.os, "replace", full)
    result = run("reset", "01")

    assert result.exit_code == NOT_SO
    assert "disk cannot be written: No space left on device." in said(result)
    assert script.read_text() == work
    assert not list(script.parent.glob(f".{LESSON}*"))
