"""Grade one answer in a separate process, which can be stopped at any time.

On Linux, the process is forked, so PyTorch is already imported. On other systems, it is a new
Python process, because some macOS libraries fail after ``fork``. The process returns the result as
plain data.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import ModuleType
from typing import TYPE_CHECKING, Any

from autograd_doctor.card import as_rich, as_text
from autograd_doctor.extension import TimeUp, time_limit

from autograd_course.errors import first_line
from autograd_course.execution import line_in, said
from autograd_course.grader import CATALOGUE, Result, grade
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.limits import VARIABLE, seconds_for
from autograd_course.grader.pipeline import result_of
from autograd_course.grader.verdict import (
    InternalError,
    NotAttemptedBecause,
    Status,
    Stopped,
    Verdict,
    WrongBecause,
)
from autograd_course.practice.reading import Task

if TYPE_CHECKING:
    from rich.text import Text


Rows = tuple[tuple[str, str], ...]
_LONGEST = 2_000  # how many characters to keep from the end of the printed output


@dataclass(frozen=True)
class Graded:
    """The result for an exercise as a notebook would show it, and the cell's output."""

    exercise: str
    status: Status
    points: int
    possible: int
    rule: str
    headline: str
    rows: Rows
    printed: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer passed."""
        return self.status == "passed"

    @property
    def text(self) -> str:
        """The result as a notebook prints it."""
        return as_text(self.headline, self.rows)

    def rich(self, width: int) -> Text:
        """Return the same text in color, for a terminal of this width."""
        return as_rich(self.headline, self.rows, kind=self.status, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-compatible data."""
        _, message = self.rows[0]
        names = ("exercise", "status", "points", "possible", "rule")
        return {name: getattr(self, name) for name in names} | {"message": message}


def graded_as(result: Result, notes: Iterable[str] = (), printed: str = "") -> Graded:
    """Convert a result to plain data. A note says where the answer is in its file."""
    noted = tuple(("note", note) for note in notes)
    return Graded(
        exercise=result.exercise,
        status=result.status,
        points=result.points,
        possible=result.possible,
        rule=result.finding.rule if result.finding else "",
        headline=result.headline,
        rows=(*result.rows(in_shell=True), *noted),
        printed=printed[-_LONGEST:],
    )


def without_next(graded: Graded) -> Graded:
    """Remove the row about hints from the result. In the terminal, a key shows the hints."""
    return replace(graded, rows=tuple(row for row in graded.rows if row[0] != "next"))


_MODULE = "exercise"  # the module name of classes in the cells
_NEEDED = "<what the answer needs>"


class _CellError(Exception):
    """Raised if a cell does not run to completion. The message is one sentence."""


def graded(task: Task) -> Graded:
    """Run an answer, grade it, and save the result, as ``grade`` does in a notebook.

    An answer that does not run does not count as an attempt, because it never reaches ``grade``.
    """
    exercise, printed = CATALOGUE[task.answer.exercise], io.StringIO()
    if not task.answer.found:
        unfinished = Verdict(NotAttemptedBecause("; ".join(task.answer.problems)))
        return graded_as(result_of(exercise, unfinished))
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        result = _result(exercise, task)
    return graded_as(result, task.answer.problems, printed.getvalue())


def _result(exercise: Exercise, task: Task) -> Result:
    seconds = seconds_for(exercise)
    try:
        with time_limit(seconds):
            defined = _run(task)
    except _CellError as error:
        return result_of(exercise, Verdict(WrongBecause(str(error))))
    except TimeUp as stop:
        stopped = Stopped(seconds, line_in(stop, task.file), code="the cell", variable=VARIABLE)
        return result_of(exercise, Verdict(stopped))
    return grade(exercise.id, defined.get(task.answer.name))


def ended(task: Task, how: str) -> Graded:
    """Return the result to use if the process ended without returning a result."""
    verdict = Verdict(WrongBecause(how))
    return graded_as(result_of(CATALOGUE[task.answer.exercise], verdict), task.answer.problems)


def broken(task: Task, error: Exception) -> Graded:
    """Return the result to use if the grader raised an error."""
    verdict = Verdict(InternalError(type(error).__name__, first_line(error)))
    return graded_as(result_of(CATALOGUE[task.answer.exercise], verdict))


def _run(task: Task) -> dict[str, Any]:
    """Run an answer with all cells that it needs, and return the names that they define."""
    module = sys.modules[_MODULE] = ModuleType(_MODULE)
    if task.is_script:
        module.__file__ = task.file
    _exec(task.answer.preamble, _NEEDED, vars(module))
    _exec("\n" * task.above + task.answer.source, task.file, vars(module))
    return vars(module)


def _exec(source: str, file: str, defined: dict[str, Any]) -> None:
    # Register the source, so that inspect and tracebacks find the learner's lines.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        exec(compile(source, file, "exec", dont_inherit=True), defined)
    except SyntaxError as error:
        raise _CellError(f"{_line(error)} is not Python: {error.msg}.") from None
    except (Exception, SystemExit) as error:
        what = "a definition that the cell needs" if file == _NEEDED else "the cell"
        told = f"{what} raises {type(error).__name__}: {said(error).rstrip('.')}"
        raise _CellError(f"{told}{line_in(error, file)}.") from None


def _line(error: SyntaxError) -> str:
    text = (error.text or "").strip()
    return f"line {error.lineno}{f' (`{text}`)' if text else ''}"


_FORKS = sys.platform == "linux"
if _FORKS:
    # vmap imports this module on its first call, which would take a second or two in each child.
    import torch._dynamo  # noqa: F401
_CONTEXT: Any = get_context("fork" if _FORKS else "spawn")
# The limit is soft and applies to one pass. If no exception can stop the code, the process is
# killed after a multiple of the limit.
_PASSES = 12


class Grading:
    """The running process that grades one answer."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.connection, sending = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_serve, args=(task, sending))
        self._process.start()
        sending.close()  # only the child has this end open now, so waiting ends when it exits
        self._seconds = _PASSES * seconds_for(CATALOGUE[task.answer.exercise])
        self._began = time.monotonic()

    def wait(self, seconds: float | None = None) -> Graded | None:
        """Return the result, or ``None`` if it has not arrived after ``seconds``."""
        left = self._left(seconds)
        if self.connection.poll(left):
            return self._received()
        if left is not None and self._left(None) == 0.0:
            self.stop()
            spent = f"{self._seconds:g} s"
            return ended(
                self.task,
                f"stopped after {spent}. The grader could not interrupt your code, so it ended the "
                "process.",
            )
        return None

    def stop(self) -> None:
        """Kill the process and all processes that it started."""
        if self._process.is_alive():
            _kill(self._process)
        self._process.join()
        self.connection.close()

    def _left(self, seconds: float | None) -> float | None:
        if not self._seconds:
            return seconds
        left = max(0.0, self._began + self._seconds - time.monotonic())
        return left if seconds is None else min(left, seconds)

    def _received(self) -> Graded:
        try:
            received: Graded = self.connection.recv()
        except EOFError:
            self._process.join()
            received = ended(self.task, _end(self._process.exitcode))
        self.stop()
        return received


def _end(code: int | None) -> str:
    how = f"exit code {code}"
    if code is not None and code < 0:
        how = f"signal {signal.Signals(-code).name}"
    return f"your code ended its own process ({how})."


def _kill(process: Any) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # in case it is not yet the leader of a process group


def _serve(task: Task, sending: Connection) -> None:
    """Grade the answer and send the result. The terminal still belongs to the parent process."""
    if hasattr(os, "setsid"):
        os.setsid()
    _without_terminal()
    try:
        result = graded(task)
    except Exception as error:
        result = broken(task, error)
    sending.send(result)
    sending.close()


def _without_terminal() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
