"""Grade one answer: from the call to ``grade`` to the report that a learner sees.

An answer is code that a learner wrote. It can be unfinished or wrong, run forever, print thousands
of lines, or change global state. The grader itself can fail too. A learner should see one sentence
about the first thing to change. The report should never blame the learner for a problem in the
grader or on the machine. So an answer goes through these steps:

1. **Find the exercise.** The catalogue imports only the exercise's own module. A call with an
   unknown exercise or without an answer ends here, with a result instead of an exception.
2. **Isolate.** After the answer runs, the grader restores the random state, the default dtype, the
   grad mode and the warning filters (:func:`.execution.isolated`). The answer's output is captured.
   Each pass has a soft time limit (:mod:`.limits`).
3. **Run the grading steps.** For each kind of exercise, a module in :mod:`.kinds` defines the steps
   and their order. The first mistake determines the verdict. A witness runs the answer and reports
   the results. Here, the witness runs the answer in this process. The classroom's judge
   (``autograd_classroom.judge``) follows the same steps, but its witness uses a sandbox.
4. **Find the cause of an exception.** If the answer raises because a package or tool is missing,
   the answer is not at fault (:class:`.verdict.MissingRequirement`). If the time runs out, the
   answer is at fault only if its own code was running. Every other exception is the grader's fault.
5. **Read the source.** A correct answer earns no points if its source uses forbidden code
   (:mod:`.reading`). The classroom grader also reads the source, with the same tables.
6. **Offer a repair.** For a wrong answer, the grader can search for a change that corrects it. The
   search starts when the report first needs the change.
7. **Save.** The progress file counts the attempt, unless the grader failed. An exercise that has
   passed stays passed.
8. **Show.** The grader converts the verdict to a :class:`.result.Result`. The learner's progress
   determines how much it shows: the learner sees more after the second wrong answer, and still more
   after the third.

In steps 2 to 6, a verdict contains no sentences. Its :class:`.verdict.Reason` holds the facts, and
:func:`.verdict.describe` writes the sentence when the report needs it. Therefore, no step depends
on the wording of a sentence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from autograd_doctor import CannotDiagnoseError
from autograd_doctor.extension import TimeUp

from autograd_course.errors import first_line
from autograd_course.execution import Printed, isolated, place
from autograd_course.grader.catalogue import find
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    LocatingExercise,
    PredictionExercise,
    RoutineExercise,
)
from autograd_course.grader.kinds.function import judge_function
from autograd_course.grader.kinds.locating import judge_location
from autograd_course.grader.kinds.predicting import judge_prediction
from autograd_course.grader.kinds.routine import judge_routine
from autograd_course.grader.limits import VARIABLE, seconds_for
from autograd_course.grader.reading import read, source_of
from autograd_course.grader.repairing import find_repair
from autograd_course.grader.result import Result, Stage
from autograd_course.grader.sections import section_to_read
from autograd_course.grader.verdict import (
    CannotExamine,
    ForbiddenCode,
    InternalError,
    MissingRequirement,
    OutOfTime,
    Reason,
    Stopped,
    Verdict,
)
from autograd_course.index import UnknownExerciseError
from autograd_course.learner.state import Record
from autograd_course.learner.store import update


class _Nothing:
    """The default value of ``answer``. It means that the caller did not pass an answer."""


def grade(exercise_id: str = "", answer: Any = _Nothing) -> Result:
    """Grade your answer to an exercise, and save the result in the progress file.

    Each run of the answer's code has a soft time limit of 5 s. The environment variable
    ``AUTOGRAD_COURSE_TIME_LIMIT`` sets a different limit, in seconds (0 means no limit).

    Args:
        exercise_id: The id of the exercise, such as ``"square"``. Case, spaces and underscores do
            not matter.
        answer: The answer that the exercise asks for: a Function class, a plain function, a string
            such as ``"1a"``, or numbers.

    Returns:
        A :class:`Result`, which a notebook displays. A wrong or unfinished answer, an unknown id or
        a missing argument also produces a result, not an exception. After the second wrong answer,
        the result names the line to change. After the third, it also explains the mistake in that
        line. After the third hint, it shows the change that repairs the answer.

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
    note = saved.note or _to_look_at(verdict)
    return result_of(exercise, verdict, note=note, kept=kept, stage=_stage(record))


def _to_look_at(verdict: Verdict) -> str:
    """Return a note that lists the lines of a correct answer that an instructor should check."""
    if verdict.status != "passed" or not verdict.remarks:
        return ""
    return f"An instructor will look at your code: {'; '.join(verdict.remarks)}."


def judge(exercise: Exercise, answer: Any, seed: int | None = None) -> Verdict:
    """Return the verdict on an answer without saving it.

    Args:
        exercise: The exercise.
        answer: The object that the learner passed to ``grade``.
        seed: The seed for drawing the inputs, or ``None`` for the exercise's usual seed.
    """
    printed = Printed()
    try:
        with isolated():
            verdict = _judge_kind(exercise, answer, seed, printed)
            if verdict.raised and exercise.needs and (missing := exercise.needs()):
                return Verdict(MissingRequirement(missing))
    except TimeUp as stop:
        return Verdict(_out_of_time(stop, exercise, answer), printed=printed.latest)
    except CannotDiagnoseError as error:
        return Verdict(CannotExamine(first_line(error)))
    except Exception as error:
        return Verdict(InternalError(type(error).__name__, first_line(error)))
    verdict = read(source_of(answer), exercise).held_against(verdict)
    if verdict.status != "wrong" or isinstance(verdict.reason, ForbiddenCode):
        return verdict
    return replace(verdict, search=partial(find_repair, exercise, answer, verdict))


def _judge_kind(exercise: Exercise, answer: Any, seed: int | None, printed: Printed) -> Verdict:
    match exercise:
        case FunctionExercise():
            return judge_function(exercise, answer, seed, printed)
        case RoutineExercise():
            return judge_routine(exercise, answer, seed, printed)
        case LocatingExercise():
            return judge_location(exercise, answer)
        case PredictionExercise():
            return judge_prediction(exercise, answer)
    raise TypeError(f"there is no grader for a {type(exercise).__name__}")


def _out_of_time(stop: TimeUp, exercise: Exercise, answer: Any) -> Reason:
    """Return the reason after a timeout. The answer is at fault only if its code was running."""
    seconds = seconds_for(exercise)
    line = place(stop, answer)
    return Stopped(seconds, line, variable=VARIABLE) if line else OutOfTime(seconds, VARIABLE)


def result_of(
    exercise: Exercise,
    verdict: Verdict,
    note: str = "",
    kept: bool = False,
    stage: Stage = "cause",
) -> Result:
    """Convert a verdict to the result that a learner sees."""
    rule = verdict.finding.rule if verdict.finding else ""
    # If the grader could not judge a Function, the message helps more than a section to reread.
    is_judged = bool(rule) or not isinstance(exercise, FunctionExercise)
    section = section_to_read(exercise, rule) if is_judged else None
    return Result(
        exercise=exercise.id,
        title=exercise.title,
        status=verdict.status,
        message=verdict.message,
        points=exercise.points if verdict.status == "passed" else 0,
        possible=exercise.points,
        finding=verdict.finding,
        sample=verdict.sample,
        read=section or "",
        note=note,
        warnings=verdict.warnings,
        printed=verdict.printed,
        kept=kept,
        stage=stage,
        search=verdict.search,
    )


def _stage(record: Record) -> Stage:
    """Return the stage of the report, based on the number of wrong answers and hints so far."""
    if record.hints >= 3:
        return "repair"
    if record.attempts >= 3:
        return "kind"
    return "cause" if record.attempts >= 2 or record.hints >= 2 else "rule"


def _refused(sentence: str, exercise_id: Any = "") -> Result:
    """Return the result of a call with an unknown exercise or without an answer."""
    title = exercise_id if isinstance(exercise_id, str) and exercise_id else "grade"
    return Result(title, title, "not attempted", sentence, 0, 0)
