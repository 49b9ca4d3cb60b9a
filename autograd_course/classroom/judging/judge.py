"""The verdict on one answer to one exercise, from behind the wall to the gradebook."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from autograd_course.classroom.asking.standing_in import standing_in
from autograd_course.classroom.extraction import Answer
from autograd_course.classroom.judging.absent import Absent
from autograd_course.classroom.judging.absent_routine import AbsentRoutine
from autograd_course.classroom.judging.asked import (
    Asked,
    BrokenError,
    StoppedError,
    UnansweredError,
    instance,
    text,
)
from autograd_course.classroom.judging.plain import plain
from autograd_course.classroom.judging.reading import remarks
from autograd_course.classroom.sandbox import Limits
from autograd_course.classroom.sandbox.backend import SandboxError
from autograd_course.classroom.sandbox.running import Sandbox
from autograd_course.doctor import DoctorError
from autograd_course.doctor.shown import first_line
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    NamingExercise,
    RoutineExercise,
)
from autograd_course.grader.judge import quiet_world
from autograd_course.grader.judging import naming
from autograd_course.grader.judging.limits import seconds_for
from autograd_course.grader.judging.order import Order
from autograd_course.grader.judging.routine_order import RoutineOrder
from autograd_course.grader.verdict import Verdict, failed, unfinished, wrong

_FAILED = "grader failed"
_HINDERS = "the grader cannot examine this answer, as it can a right one"
_LOOK = "keeps the grader from its work"


def judged(exercise: Exercise, answer: Answer, sandbox: Sandbox, seed: int) -> Verdict:
    """Return the verdict on an answer, run in a sandbox on inputs drawn from a secret seed.

    The verdict is that of ``grade``, by the same rules. An answer that does not come, or is none,
    is wrong, with the reason; a fault of ours is "grader failed", and of an answer that keeps the
    grader from its work twice, where the reference does not, this is said. The ``remarks`` say what
    in the code no answer needs, for a person to look at.
    """
    replaced: dict[str, None] = {}
    try:
        verdict = _tried(exercise, answer, sandbox, seed, replaced)
        seen = (f"replaces {name} while it runs" for name in replaced)
        return plain(replace(verdict, remarks=(*verdict.remarks, *remarks(answer.cells), *seen)))
    except Exception as error:
        return _ours(error)


def _tried(
    exercise: Exercise, answer: Answer, sandbox: Sandbox, seed: int, replaced: dict[str, None]
) -> Verdict:
    work = sandbox, seed, replaced
    verdict = _verdict(exercise, answer, *work)
    if verdict.status == _FAILED:  # what was nobody's doing does not happen again
        verdict = _verdict(exercise, answer, *work)
    if verdict.status == _FAILED and _verdict(exercise, _right(exercise), *work).status != _FAILED:
        return replace(failed(f"{_HINDERS}: {verdict.message}"), remarks=(_LOOK,))
    return verdict


def _right(exercise: Exercise) -> Answer:
    """Return the reference, as if it had been handed in."""
    source = (
        f"from {standing_in.__module__} import standing_in\nanswer = standing_in({exercise.id!r})"
    )
    return Answer(exercise.id, "", "answer", source)


def _verdict(
    exercise: Exercise, answer: Answer, sandbox: Sandbox, seed: int, replaced: dict[str, None]
) -> Verdict:
    try:
        limits = _limits(exercise, sandbox.limits)
        with sandbox.child(limits) as child, quiet_world():
            return _examined(exercise, answer, Asked(child, replaced), seed)
    except UnansweredError as reason:
        return wrong(str(reason))
    except StoppedError as where:
        return _stopped(exercise, str(where))
    except DoctorError as error:
        return failed(f"the doctor could not examine this answer: {first_line(error)}")
    except (SandboxError, BrokenError) as error:
        return failed(first_line(error))
    except Exception as error:
        return _ours(error)


def _ours(error: Exception) -> Verdict:
    return failed(f"{type(error).__name__} inside the grader: {first_line(error)}")


def _limits(exercise: Exercise, usual: Limits) -> Limits:
    """Return the limits with as much time as an exercise takes that takes long by its nature."""
    seconds = seconds_for(exercise)
    return replace(
        usual,
        wall=max(usual.wall, 2 * seconds),
        cpu=max(usual.cpu, int(3 * seconds)),
        whole=max(usual.whole, 9 * seconds),
    )


def _examined(exercise: Exercise, answer: Answer, asked: Asked, seed: int) -> Verdict:
    begin = {"exercise": exercise.id, "cells": answer.cells, "name": answer.name}
    said = asked.ask(begin).said
    if (problem := said.get("problem")) is not None:
        verdict = (unfinished if said.get("status") == "not attempted" else wrong)(text(problem))
    else:
        verdict = _asked_about(exercise, asked, seed, said)
    return _unless_lacking(said.get("lacking"), verdict)


def _asked_about(exercise: Exercise, asked: Asked, seed: int, said: dict[str, Any]) -> Verdict:
    match exercise:
        case FunctionExercise():
            absent = Absent(exercise, asked, seed)
            return Order(exercise, absent, exercise.samples(seed), timed=False).verdict()
        case RoutineExercise():
            own = _derived(seed, exercise)
            routine = AbsentRoutine(asked, own)
            return RoutineOrder(exercise, routine, exercise.samples(own), timed=False).verdict()
        case NamingExercise():
            return naming.judged(exercise, _named(said))
    raise TypeError(f"nobody judges a {type(exercise).__name__}")


def _derived(seed: int, exercise: Exercise) -> int:
    """Return a seed that may be told without telling the one it comes from."""
    return int.from_bytes(hashlib.sha256(f"{seed} {exercise.id}".encode()).digest()[:6])


def _named(said: dict[str, Any]) -> Any:
    if "text" in said:
        return text(said["text"])
    return instance(text(said["type"])) if "type" in said else None


def _unless_lacking(lacking: Any, verdict: Verdict) -> Verdict:
    """Blame no answer for having said that the sandbox lacks what it needs to run."""
    sentence = text(lacking).rstrip(".") if lacking else ""
    blamed = sentence and verdict.status == "wrong" and sentence in verdict.message
    return failed(f"in the sandbox: {sentence}.") if blamed else verdict


def _stopped(exercise: Exercise, where: str) -> Verdict:
    seconds = f"{seconds_for(exercise):g} s"
    if not where:
        return failed(f"grading took longer than {seconds}.")
    return wrong(f"stopped after {seconds} in your code{where}: does a loop there never end?")
