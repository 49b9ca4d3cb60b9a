"""``grade``: judge an answer, keep the progress, say the outcome."""

from typing import Any

from autograd_course.grader.exercise import Exercise, FunctionExercise
from autograd_course.grader.exercises import UnknownExerciseError, find
from autograd_course.grader.judge import judge
from autograd_course.grader.result import Result
from autograd_course.grader.store import update
from autograd_course.grader.verdict import Verdict


def grade(exercise_id: str, answer: Any) -> Result:
    """Grade ``answer``, a Function class, as the answer to an exercise of the course.

    Returns a :class:`Result`, which a notebook shows; it never raises for a wrong answer, an
    unfinished one or an unknown id. Each pass of the answer's code has a soft time limit: 5 s, or
    the environment variable ``AUTOGRAD_COURSE_TIME_LIMIT`` in seconds (0: none). The outcome is
    kept in the learner's progress file.
    """
    try:
        exercise = find(exercise_id)
    except UnknownExerciseError as unknown:
        title = exercise_id if isinstance(exercise_id, str) else "grade"
        return Result(title, title, "not attempted", str(unknown), 0, 0)
    verdict = judge(exercise, answer)
    return result_of(exercise, verdict, note=_keep(exercise, verdict))


def _keep(exercise: Exercise, verdict: Verdict) -> str:
    """Record the outcome; return the sentence that says so where it could not be kept."""
    if verdict.status == "grader failed":
        return ""
    rule = verdict.finding.rule if verdict.finding else ""
    status = verdict.status
    return update(lambda state: state.graded(exercise.id, status, rule)).note


def _not_judged(exercise: Exercise, verdict: Verdict) -> bool:
    """Whether a Function was refused as it stands: no lesson says more than the sentence does."""
    return isinstance(exercise, FunctionExercise) and verdict.finding is None


def result_of(exercise: Exercise, verdict: Verdict, note: str = "") -> Result:
    """Return what a learner is shown of a verdict."""
    return Result(
        exercise=exercise.id,
        title=exercise.title,
        status=verdict.status,
        message=verdict.message,
        points=exercise.points if verdict.status == "passed" else 0,
        possible=exercise.points,
        finding=verdict.finding,
        sample=verdict.sample,
        read="" if _not_judged(exercise, verdict) else exercise.read,
        note=note,
    )
