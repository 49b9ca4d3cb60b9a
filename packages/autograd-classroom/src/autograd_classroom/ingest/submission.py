"""The results of collecting files: a student's notebook, or a file that cannot be graded."""

from __future__ import annotations

from dataclasses import dataclass

from autograd_course.notebook_files import Notebook


@dataclass(frozen=True)
class Submission:
    """One student's notebook of one lesson.

    ``source`` is the path under the submissions folder (through a zip: ``a.zip/b.ipynb``), and
    ``hash`` is the SHA-256 of its bytes. ``problems`` are sentences about the file. ``handed_in``
    is the submission time in ISO format, if it is known.
    """

    student: str
    lesson: str
    source: str
    notebook: Notebook
    hash: str
    problems: tuple[str, ...] = ()
    handed_in: str = ""


@dataclass(frozen=True)
class Rejected:
    """A file or a student's folder that is not graded, and one sentence that gives the reason."""

    student: str
    source: str
    problem: str


def unread(student: str, source: str, error: Exception) -> Rejected:
    """Return the result for a file on which our own code failed. The batch must go on."""
    return Rejected(student, source, f"the grader failed to read it: {error!r:.200}")
