"""Reproduce a verdict from the code and the seed that the gradebook stores."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from autograd_classroom.console import say
from autograd_classroom.gradebook import Gradebook, Score
from autograd_classroom.gradebook.naming import near
from autograd_classroom.grading.sandboxed_judge import verdict_on
from autograd_classroom.judge.plain import shown
from autograd_classroom.reports.wording import by_hand, out_of
from autograd_classroom.sandbox import choose
from autograd_classroom.sandbox.running import Sandbox
from autograd_course.errors import CourseError
from autograd_course.extraction import Answer
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.pipeline import result_of
from autograd_course.grader.verdict import Verdict

_SEED = re.compile(r"[0-9]{1,60}")


class NoVerdictError(CourseError):
    """Raised when the requested verdict is missing from the gradebook or damaged.

    The message is a single sentence.
    """


def again(gradebook: Path, student: str, exercise: str, *, trust: bool = False) -> bool:
    """Grade a stored answer again with the same seed, and return whether the verdict is the same.

    Also print the answer's code, the seed, the new verdict, and the points in the gradebook.

    Raises NoVerdictError, GradebookError and NoSandboxError.
    """
    score, answer, seed = _recorded(gradebook, student, exercise)
    with Sandbox(choose(trust=trust)) as sandbox:
        verdict = verdict_on(answer, sandbox, seed)
    say(shown("\n\n".join(cell.strip() for cell in answer.cells)))
    say(f"\ncode {score.hash}\nseed {score.seed}\n")
    say(str(replace(result_of(CATALOGUE[exercise], verdict), possible=0)))  # without the points
    for remark in filter(None, (*verdict.remarks, score.damage)):
        say(f"  to look at: it {remark.removeprefix('it ')}")
    same = _same(verdict, score)
    recorded = f"{score.status}, {score.rule}" if score.rule else score.status
    say(f"\nThe gradebook has {'the same' if same else 'another'} verdict: {recorded}.")
    if score.is_counted:
        by = f" {by_hand(score.settlement)}" if score.settlement else ""
        say(f"The answer has {out_of(score.points, score.possible)}.{by}")
    return same


def _recorded(gradebook: Path, student: str, exercise: str) -> tuple[Score, Answer, int]:
    with Gradebook.existing(gradebook) as book:
        student = book.named(student)
        known = {score.exercise: score for score in book.scores(student)}
        score = known.get(exercise)
        if score is None or not (score.seed or score.remarks):
            raise NoVerdictError(_missing(book, student, exercise, known))
        name, preamble, source = book.code(score.hash)
    if not (name and _SEED.fullmatch(score.seed)):
        what = "the code" if not name else "the seed"
        raise NoVerdictError(
            f"the verdict on {student}'s {exercise!r} cannot be made again: {what} is damaged in "
            "the gradebook. Restore a copy of the gradebook, or grade into a new one."
        )
    answer = Answer(exercise, student, name, source, preamble, score.problems)
    return score, answer, int(score.seed)


def _missing(book: Gradebook, student: str, exercise: str, known: dict[str, Score]) -> str:
    if not known and student in book.students():
        why = [f"{problem.source}: {problem.message}" for problem in book.problems(student)]
        return f"no answer of {student}'s could be read. {'; '.join(why)}"
    if not known:
        return f"the gradebook has no student {student!r}{near(student, book.students())}."
    if exercise in known:
        return f"{student} handed in no answer to {exercise!r} that the grader could read."
    return f"the gradebook has no verdict on {student}'s {exercise!r}{near(exercise, known)}."


def _same(verdict: Verdict, score: Score) -> bool:
    rule = verdict.finding.rule if verdict.finding else ""
    return (verdict.status, rule) == (score.status, score.rule)
