"""Grade one student's submission inside Gradescope's container.

To save memory, the grader runs in a single process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.grading.choosing import chosen
from autograd_classroom.grading.executor import GradingError, Inline, RefusedError
from autograd_classroom.grading.run import work
from autograd_classroom.grading.sandboxed_judge import SandboxedJudge
from autograd_classroom.grading.version import grader_version
from autograd_classroom.ingest import Submission
from autograd_classroom.ingest.hand_in import hand_in
from autograd_classroom.reports.gradescope import gradescope_results
from autograd_classroom.sandbox import NoSandboxError, choose

from autograd_course.extraction import extract
from autograd_course.index import Entry
from autograd_course.notebook_files import Notebook

_STUDENT = "student"  # a placeholder: Gradescope itself knows the student's name


def results_of(submission: Path, asked: str) -> tuple[dict[str, Any], str]:
    """Return the results in Gradescope's format, and a note for the instructors.

    If grading fails, the results contain the reason but no score, so the student does not get a 0.
    """
    try:
        return graded(submission, asked)
    except (GradingError, RefusedError) as error:
        why = str(error)
    except Exception as error:
        traceback.print_exc()
        why = f"{type(error).__name__}: {error}"
    told = f"nothing was graded: {why}"
    results = {
        "output": f"{told}\nThis is no fault of what was handed in: please tell your instructor.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [],
    }
    return results, told


def graded(submission: Path, asked: str) -> tuple[dict[str, Any], str]:
    """Grade the submission as ``results_of`` does, but let exceptions propagate.

    Raises GradingError or RefusedError.
    """
    exercises = chosen([asked])
    bench, told = _bench()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "submissions")
        _copy(submission, copied / _STUDENT)
        with Gradebook(Path(folder, "gradebook.sqlite")) as book:
            run = book.begin(exercises, grader_version())
            _expect(book, exercises)
            hand_in(book, copied, exercises)
            book.queue(run, exercises)
            work(book, run, Inline(bench))
            return gradescope_results(book, _STUDENT), told


def _copy(submission: Path, target: Path) -> None:
    """Copy the submitted files, but skip special files such as pipes.

    Raises RefusedError if a file cannot be read.
    """
    try:
        shutil.copytree(submission, target, symlinks=True)
    except shutil.Error as several:  # copytree still copies all other files
        failed = [Path(source) for source, *_ in several.args[0]]
        closed = [path for path in failed if not os.access(path, os.R_OK)]
    except OSError:
        closed = [submission]
    else:
        return
    if closed:
        raise RefusedError(f"{closed[0]} cannot be read by the user that grades.")


def _bench() -> tuple[SandboxedJudge, str]:
    try:
        backend = choose()
        return SandboxedJudge(), f"graded in a sandbox: {backend.name}. {backend.gap}".strip()
    except NoSandboxError:
        return SandboxedJudge(trust=True), _TRUSTED


def _expect(book: Gradebook, exercises: Iterable[Entry]) -> None:
    """Record an empty answer to each exercise. Submitted answers replace these empty answers."""
    nothing = Notebook(())
    for lesson in {exercise.lesson for exercise in exercises}:
        of_lesson = [exercise for exercise in exercises if exercise.lesson == lesson]
        answers = extract(nothing, _STUDENT, of_lesson)
        book.hand_in(Submission(_STUDENT, lesson, "nothing", nothing, ""), answers)


_TRUSTED = (
    "graded WITHOUT a sandbox: bubblewrap may not make namespaces in this container. The student's "
    "code could read the grader and change these results; nothing but this container was at risk."
)
