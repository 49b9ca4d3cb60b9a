"""Judge a notebook's answers in the sandbox, and write the verdicts into its grader cells."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Iterable, Iterator

import torch
from autograd_classroom.gradebook import Run
from autograd_classroom.grading.sandboxed_judge import verdict_on
from autograd_classroom.grading.task import seed_for
from autograd_classroom.grading.version import grader_version
from autograd_classroom.sandbox import choose
from autograd_classroom.sandbox.running import Sandbox
from nbformat import NotebookNode, v4

from autograd_course.errors import CourseError
from autograd_course.extraction import extract
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.pipeline import result_of
from autograd_course.grader.result import Result
from autograd_course.index import INDEX
from autograd_course.notebook_files import Cell, Notebook

_SUFFIX = "-grade"


class GraderFailedError(CourseError):
    """Raised when the judge cannot compute a verdict.

    nbgrader then stores no score and reports an error for the submission.
    """


def write(notebook: NotebookNode, seed: str, *, trust: bool) -> None:
    """Write the verdict on each exercise into the outputs of its grader cell.

    Raises GraderFailedError if the judge cannot reach a verdict.
    """
    grading = {_exercise(cell): cell for cell in notebook.cells if _exercise(cell)}
    for result in _results(_read(notebook), grading, seed, trust):
        if result.status == "grader failed":
            raise GraderFailedError(str(result))
        grading[result.exercise].outputs = _outputs(result)


def _results(notebook: Notebook, wanted: Iterable[str], seed: str, trust: bool) -> Iterator[Result]:
    exercises = [INDEX[exercise] for exercise in wanted]
    run = Run(0, seed, grader_version())
    for answer in extract(notebook, "", exercises):
        verdict = verdict_on(answer, sandbox(trust), seed_for(run, answer))
        yield result_of(CATALOGUE[answer.exercise], verdict, note="; ".join(answer.problems))


@functools.cache
def sandbox(trust: bool) -> Sandbox:
    """Return the sandbox in which this process runs all submissions.

    Raises NoSandboxError if this machine has no sandbox.
    """
    torch.set_num_threads(1)
    opened = Sandbox(choose(trust=trust))
    atexit.register(opened.close)
    return opened


def _exercise(cell: NotebookNode) -> str:
    """Return the exercise that a cell grades, or an empty string if it does not grade one."""
    nbgrader = cell.metadata.get("nbgrader", {})
    exercise = str(nbgrader.get("grade_id", "")).removesuffix(_SUFFIX)
    return exercise if nbgrader.get("grade") and exercise in INDEX else ""


def _read(notebook: NotebookNode) -> Notebook:
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in notebook.cells]
    cells = zip(notebook.cells, ids, strict=True)
    return Notebook(tuple(Cell(cell.cell_type, cell.source, grade_id) for cell, grade_id in cells))


def _outputs(result: Result) -> list[NotebookNode]:
    """Return the outputs of a grader cell: the verdict, and then the points for nbgrader."""
    shown = {"text/plain": repr(result), "text/html": result._repr_html_()}
    return [
        v4.new_output("display_data", data=shown),
        v4.new_output("execute_result", data={"text/plain": str(result.points)}),
    ]
