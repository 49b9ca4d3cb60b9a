"""Grade submissions as they arrive, by watching a folder and grading the new answers in it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from autograd_classroom import console
from autograd_classroom.assignment import Assignment
from autograd_classroom.classwork import open_for_grading, some
from autograd_classroom.gradebook import Gradebook, Problem, Score
from autograd_classroom.grading.executor import Executor
from autograd_classroom.grading.run import work
from autograd_classroom.grading.version import grader_version
from autograd_classroom.ingest.collecting import Listing, listing
from autograd_classroom.ingest.hand_in import Known, hand_in
from autograd_classroom.paths import Places
from autograd_classroom.reports import files
from autograd_course.index import INDEX, Entry

INTERVAL = 0.05  # seconds between two checks of the folder
SETTLING = 0.04  # seconds between a change and the next check
_PATIENCE = 2.0  # seconds to wait for a folder in which files keep changing
_REST = 4  # wait at least this multiple of the time that a check takes


def arrivals(root: Path, interval: float = INTERVAL) -> Iterator[None]:
    """Yield at the start, and then each time after files have been added, changed or removed.

    A program may write a file in several steps, so a change counts only after two checks in a row
    have found the folder in the same state. If the folder keeps changing, wait for a limited time.
    The checks use ``stat``, because change notifications do not work on network drives or in
    containers. In a large folder or on a slow drive, where a check takes longer, the checks are
    less frequent.
    """
    graded: Listing | None = None
    last: Listing | None = None
    changed = 0.0  # when the first change that has not been graded was seen
    while True:
        began = time.monotonic()
        now = listing(root)
        rest = _REST * (time.monotonic() - began)
        settled, last = now == last, now
        changed = began if now == graded or not changed else changed
        if now != graded and (settled or began - changed > _PATIENCE):
            graded, changed = now, 0.0
            yield
        else:
            time.sleep(max(rest, interval if settled else min(interval, SETTLING)))


def watch(
    places: Places,
    exercises: tuple[Entry, ...],
    executor: Executor,
    about: Assignment,
    changes: Iterable[None],
) -> None:
    """After each change, grade new answers and write reports. Print each new verdict at once.

    Print each problem with a file once, and again after one of the student's files has changed.
    Print each ignored file once.
    Record each verdict in the gradebook before judging the next answer. After a crash, the next
    call continues with the remaining answers.
    """
    with open_for_grading(places, about) as book:
        known: Known = {}
        told: dict[Problem, Sequence[Listing]] = {}
        passed_over: set[str] = set()
        for _ in changes:
            shown = _verdicts(book.scores())
            run = book.begin(INDEX.values(), grader_version(), resume=True)
            came = hand_in(book, places.submissions, exercises, known=known)
            book.expect(came.exercises)
            found = {
                each: known[each.student][0] for each in book.problems() if each.student in known
            }
            for problem in found:
                if told.get(problem) != found[problem]:
                    console.say(f"{problem.source}: {problem.message}")
            told = found
            console.say_ignored([name for name in came.ignored if name not in passed_over])
            passed_over = set(came.ignored)
            book.queue(run, exercises)
            work(book, run, executor, partial(_show_judged, book, shown))
            book.finish(run)
            _show(book.scores(), shown)
            files.write(book, places.reports)
            console.say(f"{some(came.notebooks, 'notebook')} graded. Waiting for more.")


_Verdicts = dict[tuple[str, str], tuple[str, str]]


def _verdicts(scores: Iterable[Score]) -> _Verdicts:
    """Return the outcome of each answer and the stamp of its score."""
    return {(s.student, s.exercise): (s.outcome, s.stamp) for s in scores if s.status}


def _show_judged(book: Gradebook, shown: _Verdicts, judged: Score, _: int) -> None:
    """Print the verdict on each answer that has the judged code."""
    students = book.students_of(judged.exercise, judged.hash)
    _show([book.score_of(student, judged.exercise) for student in students], shown)


def _show(scores: Iterable[Score], shown: _Verdicts) -> None:
    """Print a line for each verdict that is not in ``shown`` yet, and add it."""
    for (student, exercise), verdict in _verdicts(scores).items():
        if shown.get((student, exercise)) != verdict:
            console.say(f"{student}  {exercise}  {verdict[0]}")
            shown[student, exercise] = verdict
