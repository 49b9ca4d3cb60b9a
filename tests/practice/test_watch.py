"""The ``watch`` command in its own terminal and in a pipe, with real saves."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exercise_files import (
    ENDLESS,
    EXITS,
    HALF,
    LESSON,
    SQUARE,
    UNFINISHED,
    answered,
    course,
    line_of,
)

from autograd_course.practice.reading import reading
from autograd_course.practice.running import Graded
from autograd_course.practice.targets import Target, target
from autograd_course.practice.watching import Saves, View

COMMAND = [sys.executable, "-m", "autograd_course.cli", "watch", "01"]
PATIENCE = 60.0  # seconds, because other tests may keep the machine busy

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals"),
    pytest.mark.slow,
]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "course").mkdir()
    return course(tmp_path / "course") / "exercises" / f"{LESSON}.py"


def environment() -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    return {**inherited, "AUTOGRAD_COURSE_TIME_LIMIT": "1", "TERM": "xterm"}


def until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


# In a terminal


class Terminal:
    """The command in a terminal with 100 columns, whose displayed text is recorded."""

    def __init__(self, folder: Path) -> None:
        import pexpect

        self.child = pexpect.spawn(
            COMMAND[0],
            COMMAND[1:],
            cwd=folder,
            env=environment(),
            dimensions=(30, 100),
            encoding="utf-8",
            timeout=PATIENCE,
        )

    def shows(self, *texts: str) -> None:
        for text in texts:
            self.child.expect_exact(text)

    def types(self, keys: str) -> None:
        self.child.send(keys)


@pytest.fixture
def terminal(script: Path) -> Iterator[Terminal]:
    running = Terminal(script.parents[1])
    yield running
    running.child.close(force=True)


def test_a_learner_works_through_saves_and_keys(script: Path, terminal: Terminal) -> None:
    text = script.read_text()
    terminal.shows(f"exercises/{LESSON}.py · 0 of 13 passed here", "○ Square · not attempted")

    script.write_text(answered(text, "square", HALF))
    terminal.shows("✗ Square · wrong", "constant-factor", "return x * grad_output")
    terminal.types("h")
    terminal.shows("Square · hint 1 of 3", "press h again")

    script.write_text(broken := answered(text, "square", UNFINISHED))
    terminal.shows(f"Line {line_of(broken, 'square') + 8} (", "is not Python: '(' was never closed")

    script.write_text(answered(text, "square", ENDLESS))
    terminal.shows("Is there an endless loop?")

    script.write_text(answered(text, "square", EXITS))
    terminal.shows("Your code ended its own process (exit code 3).")

    beside = script.with_name("new.py")  # some editors write a new file and rename it
    beside.write_text(answered(text, "square", SQUARE))
    os.replace(beside, script)
    terminal.shows("1 of 13 passed here", "✓ Square · passed", "Press n to go on")
    terminal.types("n")
    terminal.shows("○ Scaled sigmoid · not attempted")
    terminal.types("l")
    terminal.shows("✓", "square", "passed", "▸ ○", "scaled-sigmoid", "not attempted", "linear")
    terminal.types("p")
    terminal.shows("✓ Square · passed")

    script.unlink()
    terminal.shows(f"{LESSON}.py does not exist.", "✓ Square · passed")
    script.write_text(answered(text, "square", HALF))
    terminal.shows("✗ Square · wrong")
    terminal.types("q")
    terminal.shows("Your answers are in your file")
    terminal.child.wait()
    assert terminal.child.exitstatus == 0


# Without a terminal


@pytest.mark.thorough
def test_piped_each_verdict_is_printed_once_and_nothing_steers_a_terminal(
    script: Path, tmp_path: Path
) -> None:
    text, log = script.read_text(), tmp_path / "log"
    says = lambda sentence: until(lambda: sentence in log.read_text(), log.read_text)  # noqa: E731
    with log.open("wb") as out:
        watching = subprocess.Popen(
            COMMAND, cwd=script.parents[1], env=environment(), stdout=out, stderr=out
        )
    with ended(watching):
        says("○ Square · not attempted")
        script.write_text(answered(text, "square", HALF))
        says("✗ Square · wrong")
        script.write_text(answered(text, "square", HALF) + "\n# a remark\n")
        script.write_text(answered(text, "square", SQUARE))
        says("✓ Square · passed")
        says("○ Scaled sigmoid · not attempted")
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(PATIENCE) == 0

    shown = log.read_text()
    heads = re.findall(r"^[✓✗○] [\w ]+", shown, re.M)
    assert heads == [
        "○ Square ", "✗ Square ", "✓ Square ", "○ Scaled sigmoid ",
    ]  # fmt: skip
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown)


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


# Saves, without a process


def looks(saves: Saves, times: int = 2) -> list[bytes]:
    """Look a few times, and return the new contents. A file is read after two looks agree."""
    return [data for data in (saves.changed() for _ in range(times)) if data is not None]


def test_each_save_is_seen_once_however_it_is_made(tmp_path: Path) -> None:
    script, other = tmp_path / "a.py", tmp_path / "a.ipynb"
    script.write_bytes(b"one")
    saves = Saves(Target((script, other)))

    assert (looks(saves), looks(saves)) == ([b"one"], [])
    script.write_bytes(b"two, longer")
    assert (looks(saves), looks(saves)) == ([b"two, longer"], [])
    os.utime(script)  # touched but unchanged
    assert looks(saves) == []
    (tmp_path / "b").write_bytes(b"renamed")
    os.replace(tmp_path / "b", script)
    assert looks(saves) == [b"renamed"]
    os.utime(script, ns=(1, saves._when + 1))
    other.write_bytes(b"{}")
    os.utime(other, ns=(1, saves._when + 10**9))
    assert (looks(saves, 3), saves.path) == ([b"{}"], other)


def test_a_file_that_is_gone_is_waited_for_though_its_twin_is_there(tmp_path: Path) -> None:
    script, other = tmp_path / "a.py", tmp_path / "a.ipynb"
    for path, when in ((script, 2 * 10**9), (other, 10**9)):
        path.write_bytes(path.name.encode())
        os.utime(path, ns=(when, when))
    saves = Saves(Target((script, other)))
    assert looks(saves) == [b"a.py"]

    script.unlink()
    assert (looks(saves), saves.gone) == ([], "a.py")
    script.write_bytes(b"a.py")
    assert (looks(saves), saves.gone) == ([b"a.py"], "")


def test_a_file_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    saves = Saves(Target((script,)))
    for size in range(1, 5):
        script.write_bytes(b"x" * size)
        assert saves.changed() is None
    assert saves.changed() == b"xxxx"


# The view, as data


def seen(script: Path, text: str, view: View | None = None) -> View:
    return (view or View()).read(reading(script, text.encode(), target("01", here=script.parent)))


def result(exercise: str, status: str) -> Graded:
    return Graded(exercise, status, 0, 1, "", "", ())  # type: ignore[arg-type]


def graded(view: View, status: str, pin: bool = True) -> View:
    assert view.due is not None
    return view.with_result(view.due, result(view.due.answer.exercise, status), pin)


def test_what_is_graded_is_what_is_looked_at_then_what_was_edited(script: Path) -> None:
    text = script.read_text()
    view = seen(script, text)
    assert (view.shown, view.due is not None) == ("square", True)
    view = graded(graded(view, "passed"), "wrong")
    assert (view.shown, view.due) == ("scaled-sigmoid", None), "the rest is not asked for"

    view = seen(script, answered(text, "linear", "class Linear: pass"), view)
    assert view.shown == "scaled-sigmoid"
    assert view.due is not None
    assert view.due.answer.exercise == "linear"
    assert graded(view, "wrong").due is None


def test_a_pass_is_stayed_at_until_a_key_goes_on_where_there_are_keys(script: Path) -> None:
    text = script.read_text()
    for pin, then in ((True, "square"), (False, "scaled-sigmoid")):
        view = graded(seen(script, text), "wrong", pin)
        view = graded(seen(script, answered(text, "square", SQUARE), view), "passed", pin)
        assert view.shown == then
    assert view.moved(-1).shown == "square"
    assert view.moved(-9).shown == "square"
    assert view.moved(99).shown == list(view.tasks)[-1]
