"""Put the current submissions into the gradebook, one student at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.ingest import Rejected, Submission, collect
from autograd_classroom.ingest.submission import unread
from autograd_course.extraction import Answer, extract
from autograd_course.index import Entry


@dataclass(frozen=True)
class HandedIn:
    """The number of notebooks that could be read, and of files or folders that could not."""

    notebooks: int = 0
    rejected: int = 0


def hand_in(
    book: Gradebook,
    root: Path,
    exercises: Iterable[Entry],
    step: Callable[[], None] = lambda: None,
) -> HandedIn:
    """Put the files under ``root`` into the gradebook. Call ``step`` for each file.

    From each notebook, take the requested exercises of its lesson. Ignore notebooks without any
    requested exercise. Raises NoSubmissionsError if the folder does not exist.
    """
    wanted = tuple(exercises)
    notebooks = rejected = 0
    book.forget_rejected()
    for each in collect(root):
        step()
        taken = each if isinstance(each, Rejected) else _answers(each, wanted)
        if isinstance(taken, Rejected):
            book.reject(taken)
            rejected += 1
        elif isinstance(each, Submission) and taken:
            book.hand_in(each, taken)
            notebooks += 1
    return HandedIn(notebooks, rejected)


def _answers(submission: Submission, wanted: Iterable[Entry]) -> tuple[Answer, ...] | Rejected:
    """Return the answers to the requested exercises of the notebook's lesson."""
    of_lesson = [exercise for exercise in wanted if exercise.lesson == submission.lesson]
    try:
        return extract(submission.notebook, submission.student, of_lesson)
    except Exception as error:
        return unread(submission.student, submission.source, error)
