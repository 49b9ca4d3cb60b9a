"""A grading run. An executor judges the pending code, and the gradebook records the verdicts.

The run judges each piece of code once, with its own inputs. All students who handed in this code
get the same verdict. This is correct, because a verdict depends only on the code and its seed: the
sandbox does not know the students, and submissions cannot affect each other. It is also fair. If
the run judged the same code several times and the results varied, students with identical work
could get different verdicts.

For the same reasons, an answer passes without a second run if it is the same program as an answer
that has passed, except for its variable names, comments and layout. The verdict on a wrong answer
quotes names and lines. After the first answer with a wrong program, the run therefore judges the
program's anonymous form (see ``grading.anonymous``) once for all answers that have this form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from autograd_classroom.gradebook import Gradebook, Run, Score
from autograd_classroom.grading.executor import Executor, GradingError, Outcome
from autograd_classroom.grading.programs import Programs
from autograd_classroom.grading.task import Task, seed_for
from autograd_course.extraction import Answer
from autograd_course.index import INDEX

_LOST: dict[str, Any] = {
    "status": "grader failed",
    "message": "the worker process died of this answer twice.",
}


def work(
    book: Gradebook,
    run: Run,
    executor: Executor,
    step: Callable[[Score, int], None] = lambda *_: None,
) -> None:
    """Judge all queued code (see :meth:`Gradebook.queue`), and record each verdict as it arrives.

    After each verdict, call ``step`` with the verdict and the number of answers that have this
    code. Raises GradingError.
    """
    programs = Programs()

    def record(score: Score) -> None:
        step(score, book.record_for_all(run, score))

    def tasks(answers: Iterable[Answer]) -> Iterator[Task]:
        for answer in answers:
            match programs.find(answer):
                case Score() as score:
                    record(score)
                case Answer() as code:
                    yield Task(code, seed_for(run, code), run.grader)

    def judge(answers: Iterable[Answer]) -> None:
        with closing(executor(tasks(answers))) as outcomes:
            for outcome in outcomes:
                for score in programs.verdicts(_score(outcome)):
                    record(score)

    judge(book.queued())
    while left := programs.left:
        programs.left = []
        judge(left)


def _score(outcome: Outcome) -> Score:
    """Return the verdict to record. Compute the points here, not in the worker."""
    answer, said = outcome.task.answer, outcome.said or _LOST
    points = INDEX[answer.exercise].points if said["status"] == "passed" else 0
    return Score(
        student="",
        exercise=answer.exercise,
        status=said["status"],
        points=float(points),
        rule=said.get("rule", ""),
        message=said["message"],
        evidence=said.get("evidence", {}),
        remarks=tuple(said.get("remarks", ())),
        seconds=said.get("seconds", 0.0),
        hash=answer.hash,
        seed=str(outcome.task.seed),
    )


@contextmanager
def only_run(gradebook: Path) -> Iterator[None]:
    """Lock a gradebook during a ``with`` block, so that only one run can use it at a time.

    Raises GradingError if another run holds the lock.
    """
    lock = FileLock(f"{gradebook}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not os.path.isfile(lock.lock_file):  # on some file systems, it cannot be created
            raise GradingError(
                f"{gradebook} cannot be written, because its folder allows no lock: name another "
                "file."
            ) from None
        raise GradingError(
            f"another run is grading into {gradebook}: let it finish, or name another file."
        ) from None
    except OSError as error:
        raise GradingError(f"{gradebook} cannot be written ({error.strerror}).") from None
    try:
        yield
    finally:
        lock.release()
