"""``grade``: judge an answer, keep the progress, say the outcome."""

from dataclasses import replace
from typing import Any

from autograd_course.grader.catalogue import find
from autograd_course.grader.exercise import Exercise, FunctionExercise
from autograd_course.grader.pipeline import judge
from autograd_course.grader.result import Result, Stage
from autograd_course.grader.sections import section_to_read
from autograd_course.grader.state import Record
from autograd_course.grader.store import update
from autograd_course.grader.verdict import Verdict
from autograd_course.index import UnknownExerciseError


class _Nothing:
    """What stands for an argument that was left out."""


def grade(exercise_id: str = "", answer: Any = _Nothing) -> Result:
    """Grade an answer to an exercise of the course, and save the outcome in the progress file.

    Each pass of the answer's code has a soft time limit of 5 s. The environment variable
    ``AUTOGRAD_COURSE_TIME_LIMIT`` sets another one, in seconds (0: none).

    Args:
        exercise_id: The id of the exercise, such as ``"square"``. Capitals, spaces and underscores
            make no difference.
        answer: What the exercise asks for: a Function class, a plain function or the name of a
            rule.

    Returns:
        A :class:`Result`, which a notebook shows. A wrong answer, an unfinished one, an unknown id
        and a forgotten argument are results too. A second wrong answer is told more than the first
        one, and after the third hint the result shows the change that repairs the answer.

    Example:
        >>> from autograd_course import grade
        >>> from autograd_course.functions import Square
        >>> grade("square", Square).status
        'passed'
    """
    if isinstance(answer, str) and not isinstance(exercise_id, str):
        return _refused(f'the id of the exercise comes first: grade("{answer}", YourAnswer).')
    try:
        exercise = find(exercise_id)
    except UnknownExerciseError as unknown:
        return _refused(str(unknown), exercise_id)
    if answer is _Nothing:
        call = f'grade("{exercise.id}", {exercise.answer})'
        return replace(_refused(f"the answer is missing: {call}."), title=exercise.title)
    verdict = judge(exercise, answer)
    if verdict.status == "grader failed":
        return result_of(exercise, verdict)
    rule = verdict.finding.rule if verdict.finding else ""
    saved = update(lambda state: state.graded(exercise.id, verdict.status, rule))
    record = saved.state[exercise.id]
    kept = record.status == "passed" and verdict.status != "passed"
    return result_of(exercise, verdict, note=saved.note, kept=kept, stage=_stage(record))


def _stage(record: Record) -> Stage:
    """Return how much a learner is told after these attempts and hints."""
    if record.hints >= 3:
        return "repair"
    return "cause" if record.attempts >= 2 or record.hints >= 2 else "rule"


def _refused(sentence: str, exercise_id: Any = "") -> Result:
    """Return the result of a call that names no exercise, or hands in nothing."""
    title = exercise_id if isinstance(exercise_id, str) and exercise_id else "grade"
    return Result(title, title, "not attempted", sentence, 0, 0)


def _not_judged(exercise: Exercise, verdict: Verdict) -> bool:
    """Whether a Function could not be judged at all: no lesson says more than the sentence does."""
    return isinstance(exercise, FunctionExercise) and verdict.finding is None


def _to_read(exercise: Exercise, verdict: Verdict) -> str:
    if _not_judged(exercise, verdict):
        return ""
    return section_to_read(exercise, verdict.finding.rule if verdict.finding else "")


def result_of(
    exercise: Exercise,
    verdict: Verdict,
    note: str = "",
    kept: bool = False,
    stage: Stage = "cause",
) -> Result:
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
        read=_to_read(exercise, verdict),
        note=note,
        warnings=verdict.warnings,
        printed=verdict.printed,
        kept=kept,
        stage=stage,
        search=verdict.search,
    )
