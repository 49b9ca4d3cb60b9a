"""The result of collecting a file: a student's notebook, or the reason why it cannot be graded."""

from __future__ import annotations

from dataclasses import dataclass

from autograd_course.notebook_files import Notebook


@dataclass(frozen=True)
class Submission:
    """One student's notebook for one lesson.

    ``source`` is the path relative to the submissions folder, such as ``a.zip/b.ipynb`` for a file
    in a zip. ``hash`` is the SHA-256 hash of the file's bytes. ``problems`` describe what is wrong
    with the file. ``handed_in`` is the submission time in ISO format, if it is known.
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
    """A file or a student's folder that is not graded, and the reason in one sentence.

    ``is_superseded`` says whether another file of the student is graded instead.
    """

    student: str
    source: str
    problem: str
    is_superseded: bool = False


def unread(student: str, source: str, error: Exception) -> Rejected:
    """Reject a file that makes our own code fail, so that the other files can still be graded."""
    return Rejected(student, source, f"the grader failed to read it: {error!r:.200}")
