"""Run one answer of the learner's own, and grade what it defines: in a process made for it."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from types import ModuleType
from typing import Any

from autograd_doctor.extension import TimeUp, time_limit

from autograd_course.classroom.extraction.answer import NotPython
from autograd_course.errors import first_line
from autograd_course.grader import CATALOGUE, Result, grade
from autograd_course.grader.execution import line_in, said
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.limits import seconds_for
from autograd_course.grader.pipeline import result_of
from autograd_course.grader.verdict import (
    InternalError,
    NotAttemptedBecause,
    Stopped,
    Verdict,
    WrongBecause,
)
from autograd_course.practice.graded import Graded, graded_as
from autograd_course.practice.reading import Task

_MODULE = "exercise"  # what classes of the cells say of where they are from
_NEEDED = "<what the answer needs>"


class _CellError(Exception):
    """The cell does not run to its end; the message is one sentence."""


def graded(task: Task) -> Graded:
    """Run an answer and grade it; the outcome is kept as ``grade`` keeps it in a notebook.

    An answer that does not run was never handed to ``grade``: it is no attempt.
    """
    exercise, printed = CATALOGUE[task.answer.exercise], io.StringIO()
    if not task.answer.found:
        unfinished = Verdict(NotAttemptedBecause("; ".join(task.answer.problems)))
        return graded_as(result_of(exercise, unfinished))
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        result = _result(exercise, task)
    # That it is not Python, the result says with the line of the file.
    notes = (note for note in task.answer.problems if not isinstance(note, NotPython))
    return graded_as(result, notes, printed.getvalue())


def _result(exercise: Exercise, task: Task) -> Result:
    seconds = seconds_for(exercise)
    try:
        with time_limit(seconds):
            defined = _run(task)
    except _CellError as error:
        return result_of(exercise, Verdict(WrongBecause(str(error))))
    except TimeUp as stop:
        stopped = Stopped(seconds, line_in(stop, task.file), code="the cell")
        return result_of(exercise, Verdict(stopped))
    return grade(exercise.id, defined.get(task.answer.name))


def ended(task: Task, how: str) -> Graded:
    """Return the result where the process that ran the answer is gone without one."""
    verdict = Verdict(WrongBecause(how))
    return graded_as(result_of(CATALOGUE[task.answer.exercise], verdict), task.answer.problems)


def broken(task: Task, error: Exception) -> Graded:
    """Return the result where the grader raised."""
    verdict = Verdict(InternalError(type(error).__name__, first_line(error)))
    return graded_as(result_of(CATALOGUE[task.answer.exercise], verdict))


def _run(task: Task) -> dict[str, Any]:
    """Run an answer with what it needs; return what that defines."""
    module = sys.modules[_MODULE] = ModuleType(_MODULE)
    if task.is_script:
        module.__file__ = task.file
    _exec(task.answer.preamble, _NEEDED, vars(module))
    _exec("\n" * task.above + task.answer.source, task.file, vars(module))
    return vars(module)


def _exec(source: str, file: str, defined: dict[str, Any]) -> None:
    # Where the source is known, inspect and tracebacks find the learner's lines.
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
