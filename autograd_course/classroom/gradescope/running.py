"""One student's submission graded in Gradescope's container, in one process: memory is short."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autograd_course.classroom.extraction import extract
from autograd_course.classroom.gradebook import Gradebook
from autograd_course.classroom.grading.alone import Alone
from autograd_course.classroom.grading.bench import Bench
from autograd_course.classroom.grading.choosing import chosen
from autograd_course.classroom.grading.handing_in import hand_in
from autograd_course.classroom.grading.run import work
from autograd_course.classroom.grading.version import grader_version
from autograd_course.classroom.notebooks import Notebook
from autograd_course.classroom.reports.gradescope import gradescope_results
from autograd_course.classroom.sandbox import NoSandboxError, choose
from autograd_course.classroom.submissions import Submission
from autograd_course.grader.exercise import Exercise

_STUDENT = "student"  # Gradescope knows who it is


def graded(submission: Path, asked: str) -> tuple[dict[str, Any], str]:
    """Return Gradescope's results, and what its instructors are told of how they were made."""
    exercises = chosen([asked])
    bench, told = _bench()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "submissions")
        with contextlib.suppress(shutil.Error):  # a pipe, say: the rest is copied nevertheless
            shutil.copytree(submission, copied / _STUDENT, symlinks=True)
        with Gradebook(Path(folder, "gradebook.sqlite")) as book:
            run = book.begin(exercises, grader_version())
            _expect(book, exercises)
            hand_in(book, copied, exercises)
            book.queue(run, exercises)
            work(book, run, Alone(bench))
            return gradescope_results(book, _STUDENT), told


def _bench() -> tuple[Bench, str]:
    try:
        return Bench(), f"graded in a sandbox: {choose().name}"
    except NoSandboxError:
        return Bench(trust=True), _TRUSTED


def _expect(book: Gradebook, exercises: Iterable[Exercise]) -> None:
    """Put an empty answer in the place of all that is asked for: what comes in replaces it."""
    nothing = Notebook(())
    for lesson in {exercise.lesson for exercise in exercises}:
        of_lesson = [exercise for exercise in exercises if exercise.lesson == lesson]
        answers = extract(nothing, _STUDENT, of_lesson)
        book.hand_in(Submission(_STUDENT, lesson, "nothing", nothing, ""), answers)


_TRUSTED = (
    "graded WITHOUT a sandbox: bubblewrap may not make namespaces in this container. The student's "
    "code could read the grader and change these results; nothing but this container was at risk."
)
