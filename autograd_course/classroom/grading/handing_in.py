"""From files to the gradebook: what everybody has handed in now, one student after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from autograd_course.classroom.extraction import extract
from autograd_course.classroom.gradebook import Gradebook
from autograd_course.classroom.submissions import Rejected, Submission, collect
from autograd_course.grader.exercise import Exercise


@dataclass(frozen=True)
class HandedIn:
    """How many notebooks were read, and how many files or folders were not."""

    notebooks: int = 0
    rejected: int = 0


def hand_in(
    book: Gradebook,
    root: Path,
    exercises: Iterable[Exercise],
    step: Callable[[], None] = lambda: None,
) -> HandedIn:
    """Put what lies under ``root`` into the gradebook; ``step`` is called for each file.

    Of the exercises, those of a notebook's lesson are taken; a notebook with none of them is left.
    Raises NoSubmissionsError where there is no such folder.
    """
    wanted = tuple(exercises)
    notebooks = rejected = 0
    book.forget_rejected()
    for each in collect(root):
        step()
        if isinstance(each, Rejected):
            book.reject(each)
            rejected += 1
        else:
            notebooks += _taken(book, each, wanted)
    return HandedIn(notebooks, rejected)


def _taken(book: Gradebook, submission: Submission, wanted: Iterable[Exercise]) -> bool:
    of_lesson = [exercise for exercise in wanted if exercise.lesson == submission.lesson]
    if not of_lesson:
        return False
    try:
        answers = extract(submission.notebook, submission.student, of_lesson)
    except Exception as error:  # a fault of ours: it must not stop the batch, nor go unseen
        problem = f"the grader failed to read it: {error!r:.200}"
        book.reject(Rejected(submission.student, submission.source, problem))
        return False
    book.hand_in(submission, answers)
    return True
