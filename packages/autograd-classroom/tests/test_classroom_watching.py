"""Watching a folder: submissions are graded as they arrive, and a crash loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import pytest
from autograd_classroom import watching
from autograd_classroom.assignment import NOTHING
from autograd_classroom.classwork import grade
from autograd_classroom.gradebook import Gradebook
from autograd_classroom.grading.executor import GradingError, Outcome
from autograd_classroom.grading.pool import Pool
from autograd_classroom.grading.task import Task
from autograd_classroom.paths import Places
from autograd_classroom.watching import arrivals, watch
from classroom_stand import Stand
from handed_in import IMPORTS, SQUARE, cell, notebook

from autograd_course.index import INDEX

pytestmark = pytest.mark.slow

EXERCISES = (INDEX["square"],)


def hand_in(root: Path, student: str, code: str) -> None:
    data = notebook(cell(IMPORTS), cell(f"# {code}\n{SQUARE}", "square"))
    (root / f"{student}.ipynb").write_bytes(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "homework").mkdir()
    return tmp_path / "homework"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[tuple[Pool, Stand]]:
    (tmp_path / "stand").mkdir()
    stand = Stand(str(tmp_path / "stand"))
    with closing(Pool(2, stand)) as opened:
        yield opened, stand


# When something has arrived


def test_each_change_is_reported_once_and_only_when_the_folder_is_at_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that grows from look to look is not read before it is complete."""
    upload = iter([b"a", b"ab", b"abc"])

    looks = 0

    def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if part := next(upload, None):
            (root / "ann.ipynb").write_bytes(part)
        elif looks > 9:
            raise NothingMoreError

    monkeypatch.setattr(watching.time, "sleep", sleep)
    file, seen = root / "ann.ipynb", []
    with suppress(NothingMoreError):
        for _ in arrivals(root):
            seen.append(file.read_bytes() if file.exists() else b"")

    assert seen[-1] == b"abc"
    assert len(seen) == len(set(seen)) <= 2


CHANGING: dict[str, Callable[[Path, int], object]] = {
    "a log": lambda root, look: (root / "train.log").write_text("x" * look),
    "a link to a report": lambda root, look: (root.parent / "class.html").write_text("x" * look),
}


@pytest.mark.parametrize("what", CHANGING)
def test_what_is_no_answer_may_change_all_the_time(
    what: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "notes.html").symlink_to(root.parent / "class.html")
    looks = count(1)

    def sleep(_: float) -> None:
        CHANGING[what](root, look := next(looks))
        if look == 5:
            hand_in(root, "ann", "first")
        if look > 20:
            raise NothingMoreError

    monkeypatch.setattr(watching.time, "sleep", sleep)
    seen = []
    with suppress(NothingMoreError):
        for _ in arrivals(root):
            seen.append((root / "ann.ipynb").exists())

    assert seen.count(True) == 1


def test_an_answer_that_keeps_changing_keeps_nobody_waiting_for_long(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_PATIENCE", 0.0)
    looks = count(1)

    def sleep(_: float) -> None:
        hand_in(root, "eve", f"version {(look := next(looks))}")
        if look > 20:
            raise NothingMoreError

    monkeypatch.setattr(watching.time, "sleep", sleep)
    with suppress(NothingMoreError):
        seen = [*zip(range(5), arrivals(root), strict=False)]

    assert len(seen) == 5


class NothingMoreError(Exception): ...


# What is graded then


def test_what_arrives_is_graded_and_what_has_not_changed_is_not_read_again(
    root: Path,
    pool: tuple[Pool, Stand],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor, stand = pool
    read: list[str] = []
    plain = watching.hand_in.__globals__["of_student"]
    monkeypatch.setitem(
        watching.hand_in.__globals__,
        "of_student",
        lambda student, paths, root: read.append(student) or plain(student, paths, root),
    )

    def changes() -> Iterator[None]:
        yield  # an empty folder
        hand_in(root, "ann", "first")
        yield
        hand_in(root, "bob", "other")
        yield
        hand_in(root, "ann", "better")
        yield
        (root / "cyd.zip").write_bytes(b"no zip")
        yield
        hand_in(root, "bob", "another")  # cyd's zip is still broken, which is no news
        yield
        (root / "cyd.zip").write_bytes(b"still no zip")
        (root / "dan.rar").write_bytes(b"Rar!")
        yield
        (root / "eve.7z").write_bytes(b"7z")
        yield

    places = Places.of(root, None, None)
    watch(places, EXERCISES, executor, NOTHING, changes())

    assert stand.told() == ["# first", "# other", "# better", "# another"]
    assert read == ["ann", "bob", "ann", "cyd", "bob", "cyd"]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "Waiting" not in line] == [
        "ann  square  passed",
        "bob  square  passed",
        "ann  square  passed",
        "cyd.zip: the zip is broken: File is not a zip file",
        "bob  square  passed",
        "cyd.zip: the zip is broken: File is not a zip file",
        "ignored: dan.rar. Only notebooks, scripts and zip files are read.",
        "ignored: eve.7z. Only notebooks, scripts and zip files are read.",
    ]
    assert (places.reports / "grades.csv").read_text().count("\n") == 4


def test_a_verdict_and_a_broken_file_are_shown_before_the_next_verdict(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def executor(tasks: Iterator[Task]) -> Iterator[Outcome]:
        for task in tasks:
            told.extend(capsys.readouterr().out.splitlines())
            yield Outcome(task, {"status": "wrong", "message": ""})

    (root / "cyd.zip").write_bytes(b"no zip")
    for student, code in (("ann", "one"), ("bob", "one"), ("dan", "two"), ("eve", "three")):
        hand_in(root, student, code)
    watch(Places.of(root, None, None), EXERCISES, executor, NOTHING, [None])

    first, *others = told
    assert first.startswith("cyd.zip: ")
    assert set(others) < {f"{name}  square  wrong" for name in ("ann", "bob", "dan", "eve")}
    assert len(others) >= 2
    assert len(told + capsys.readouterr().out.splitlines()) == 6


def test_the_gradebook_is_the_one_of_grade_and_a_crash_loses_nothing(
    root: Path, pool: tuple[Pool, Stand]
) -> None:
    executor, stand = pool
    places = Places.of(root, None, None)
    for number in range(5):
        hand_in(root, f"student{number}", f"code {number}")
    hand_in(root, "student9", "refuse")

    with pytest.raises(GradingError, match="no sandbox here"):
        watch(places, EXERCISES, executor, NOTHING, [None])
    hand_in(root, "student9", "code 9")
    watch(places, EXERCISES, executor, NOTHING, [None])
    begun = stand.told()
    grade(places, EXERCISES, executor, resume=False)

    assert stand.told() == begun, "grade finds everything graded"
    with Gradebook(places.gradebook) as book:
        assert {score.status for score in book.scores()} == {"passed"}
        assert len(book.students()) == 6


# The command


# A process that was started in the background ignores Ctrl+C, and its children do too.
INTERRUPTIBLE = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from autograd_course.cli import app
app()
"""


def test_the_command_grades_until_ctrl_c(root: Path) -> None:
    words = ["classroom", "watch", "homework", "--exercises", "square", "--trust", "--jobs", "1"]
    command = [sys.executable, "-u", "-c", INTERRUPTIBLE, *words]
    with subprocess.Popen(
        command, cwd=root.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == "0 notebooks graded. Waiting for more.\n"
        hand_in(root, "ann", "code")
        assert ran.stdout.readline() == "ann  square  passed\n"
        time.sleep(0.1)
        os.kill(ran.pid, signal.SIGINT)
        rest, errors = ran.communicate(timeout=60)

    assert ran.returncode == 0, errors
    assert rest.endswith("Stopped. Every verdict so far is in homework-grades/gradebook.sqlite.\n")


def test_without_a_folder_nothing_is_watched(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autograd_course.cli", "classroom", "watch", "homework"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert ran.returncode == 2
    assert "there is no folder homework" in " ".join(ran.stderr.split())
