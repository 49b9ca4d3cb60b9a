"""The verdict on one answer to one exercise, from behind the wall to the gradebook."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from autograd_doctor import CannotDiagnoseError

from autograd_course.classroom.asking.standing_in import standing_in
from autograd_course.classroom.extraction import Answer
from autograd_course.classroom.judging import seeds
from autograd_course.classroom.judging.asked import (
    Asked,
    BrokenError,
    StoppedError,
    UnansweredError,
    instance,
    text,
)
from autograd_course.classroom.judging.plain import plain
from autograd_course.classroom.judging.remote_function import RemoteFunction
from autograd_course.classroom.judging.remote_routine import RemoteRoutine
from autograd_course.classroom.judging.repairing import Budget, with_repair
from autograd_course.classroom.protocol.frames import LONGEST_HEADER
from autograd_course.classroom.sandbox import Limits
from autograd_course.classroom.sandbox.backend import SandboxError
from autograd_course.classroom.sandbox.running import Sandbox
from autograd_course.errors import first_line
from autograd_course.execution import isolated
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    LocatingExercise,
    PredictionExercise,
    RoutineExercise,
    Sampled,
)
from autograd_course.grader.kinds.function import FunctionOrder
from autograd_course.grader.kinds.locating import judge_location
from autograd_course.grader.kinds.predicting import judge_prediction
from autograd_course.grader.kinds.routine import RoutineOrder
from autograd_course.grader.limits import VARIABLE, limit_in_seconds
from autograd_course.grader.reading import read
from autograd_course.grader.verdict import (
    CannotExamine,
    CodeRaised,
    GraderFailedBecause,
    Hindered,
    InternalError,
    MissingRequirement,
    NotAttemptedBecause,
    OutOfTime,
    Reason,
    Stopped,
    Verdict,
    WrongBecause,
)

_LOOK = "keeps the grader from its work"


def judged(
    exercise: Exercise,
    answer: Answer,
    sandbox: Sandbox,
    secret: int,
    budget: Budget | None = None,
) -> Verdict:
    """Return the verdict on an answer, run in a sandbox on inputs drawn from a secret seed.

    The verdict is that of ``grade``, by the same rules. An answer that does not come, or is none,
    is wrong, with the reason; a fault of ours is "grader failed", and of an answer that keeps the
    grader from its work twice, where the reference does not, this is said. The ``remarks`` say what
    in the code no answer needs, for a person to look at. With a ``budget``, the finding of a wrong
    answer holds the change that makes it right, if one is found.
    """
    replaced: dict[str, None] = {}
    try:
        verdict = _tried(exercise, answer, sandbox, secret, replaced, budget)
        seen = (f"replaces {name} while it runs" for name in replaced)
        verdict = read(answer.cells, exercise).held_against(verdict)
        return plain(replace(verdict, remarks=(*verdict.remarks, *seen)))
    except Exception as error:
        return Verdict(_ours(error))


def _tried(
    exercise: Exercise,
    answer: Answer,
    sandbox: Sandbox,
    secret: int,
    replaced: dict[str, None],
    budget: Budget | None,
) -> Verdict:
    work = sandbox, secret, replaced
    verdict = _verdict(exercise, answer, *work, budget)
    failed = "grader failed"
    if verdict.status == failed:  # a failure by chance does not happen twice
        verdict = _verdict(exercise, answer, *work)
    if verdict.status == failed and _verdict(exercise, _right(exercise), *work).status != failed:
        return Verdict(Hindered(verdict.reason), remarks=(_LOOK,))
    return verdict


def _right(exercise: Exercise) -> Answer:
    """Return the reference, as if it had been handed in."""
    source = (
        f"from {standing_in.__module__} import standing_in\nanswer = standing_in({exercise.id!r})"
    )
    return Answer(exercise.id, "", "answer", source)


def _verdict(
    exercise: Exercise,
    answer: Answer,
    sandbox: Sandbox,
    secret: int,
    replaced: dict[str, None],
    budget: Budget | None = None,
) -> Verdict:
    try:
        seconds = _seconds(exercise, sandbox.limits)
        limits = sandbox.limits.stretched(seconds / sandbox.limits.question)
        with sandbox.child(limits) as child, isolated():
            return _examined(exercise, answer, Asked(child, replaced), secret, seconds, budget)
    except UnansweredError as reason:
        return Verdict(WrongBecause(str(reason)))
    except StoppedError as where:
        return Verdict(_stopped(_seconds(exercise, sandbox.limits), str(where)))
    except CannotDiagnoseError as error:
        return Verdict(CannotExamine(first_line(error)))
    except (SandboxError, BrokenError) as error:
        return Verdict(GraderFailedBecause(first_line(error)))
    except Exception as error:
        return Verdict(_ours(error))


def _ours(error: Exception) -> Reason:
    return InternalError(type(error).__name__, first_line(error))


def _seconds(exercise: Exercise, limits: Limits) -> float:
    """Return how long an answer may compute for one question; 0 is no limit.

    An exercise that takes long by its nature has more time.
    """
    own = exercise.seconds if isinstance(exercise, Sampled) else None
    usual = limits.question if VARIABLE not in os.environ else limit_in_seconds()
    return max(usual, own) if usual and own else usual


def _examined(
    exercise: Exercise,
    answer: Answer,
    asked: Asked,
    secret: int,
    seconds: float,
    budget: Budget | None,
) -> Verdict:
    begin = {
        "exercise": exercise.id, "cells": answer.cells, "name": answer.name, "seconds": seconds,
    }  # fmt: skip
    if len(json.dumps(begin)) > LONGEST_HEADER:
        raise UnansweredError(
            f"the code that the answer needs has more than {LONGEST_HEADER >> 20} MiB. Remove data "
            "and outputs from the cells."
        )
    said = asked.ask(begin).said
    if (problem := said.get("problem")) is not None:
        verdict = Verdict(_refused(text(problem), said))
    else:
        verdict = _asked_about(exercise, answer, asked, secret, said, budget)
    if (lacking := said.get("lacking")) and verdict.raised:
        return Verdict(MissingRequirement(text(lacking), in_sandbox=True))
    return verdict


def _asked_about(
    exercise: Exercise,
    answer: Answer,
    asked: Asked,
    secret: int,
    said: dict[str, Any],
    budget: Budget | None,
) -> Verdict:
    match exercise:
        case FunctionExercise():
            samples, remote = (
                seeds.samples(exercise, secret),
                RemoteFunction(exercise, asked, secret),
            )
            order = FunctionOrder(exercise, remote, samples, timed=False)
            verdict = order.verdict()
            if budget:
                verdict = with_repair(exercise, answer, remote, verdict, budget)
            return replace(verdict, also=_also(order, verdict))
        case RoutineExercise():
            samples, routine = seeds.samples(exercise, secret), RemoteRoutine(asked, secret)
            return RoutineOrder(exercise, routine, samples, timed=False).verdict()
        case LocatingExercise():
            return judge_location(exercise, _typed(said))
        case PredictionExercise():
            return judge_prediction(exercise, _typed(said))
    raise TypeError(f"nobody judges a {type(exercise).__name__}")


def _also(order: FunctionOrder, verdict: Verdict) -> tuple[str, ...]:
    """Return the further rules that an answer breaks; what cannot be examined is a fault."""
    try:
        return order.also(verdict.finding) if verdict.finding else ()
    except (UnansweredError, StoppedError, CannotDiagnoseError, SandboxError, BrokenError):
        return ("",)


def _typed(said: dict[str, Any]) -> Any:
    if "text" in said:
        return text(said["text"])
    return instance(text(said["type"])) if "type" in said else None


def _refused(problem: str, said: dict[str, Any]) -> Reason:
    """Return why an answer could not be asked anything."""
    if said.get("status") == "not attempted":
        return NotAttemptedBecause(problem)
    return CodeRaised(problem) if said.get("raised") is True else WrongBecause(problem)


def _stopped(seconds: float, where: str) -> Reason:
    return Stopped(seconds, where) if where else OutOfTime(seconds)
