"""Judge one answer to one exercise. The answer runs in a sandbox."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, cast

from autograd_doctor import CannotDiagnoseError

from autograd_classroom.judge import seeds
from autograd_classroom.judge.asked import (
    Asked,
    BrokenError,
    Noticed,
    StoppedError,
    UnansweredError,
    instance,
    text,
)
from autograd_classroom.judge.parcels import packed
from autograd_classroom.judge.plain import plain
from autograd_classroom.judge.remote import RemoteFunction, RemoteRoutine
from autograd_classroom.judge.repairing import Budget, with_repair
from autograd_classroom.judge.stub_submission import stub_submission
from autograd_classroom.protocol.frames import LONGEST_HEADER
from autograd_classroom.sandbox import Limits
from autograd_classroom.sandbox.backend import SandboxError
from autograd_classroom.sandbox.running import Sandbox
from autograd_course.errors import first_line
from autograd_course.execution import isolated
from autograd_course.extraction import Answer
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    LocatingExercise,
    PredictionExercise,
    RoutineExercise,
    Sampled,
)
from autograd_course.grader.kinds.function import FunctionOrder, submission_problem
from autograd_course.grader.kinds.locating import judge_location
from autograd_course.grader.kinds.predicting import judge_prediction
from autograd_course.grader.kinds.routine import RoutineOrder, argument_counts, routine_problem
from autograd_course.grader.limits import VARIABLE, limit_in_seconds
from autograd_course.grader.reading import Reading, keep_answer, read
from autograd_course.grader.verdict import (
    CannotExamine,
    CodeRaised,
    GraderFailedBecause,
    Hindered,
    InternalError,
    MissingRequirement,
    OutOfTime,
    Reason,
    Stopped,
    Verdict,
    WrongBecause,
)
from autograd_course.submitted import KINDS, Kind, Submitted

_LOOK = "keeps the grader from its work"
_ALONE = "was graded without the code around it, which fails"
_DEPENDS = "passes only if the code around it runs, too: see what this code gives to the answer"


def judged(
    exercise: Exercise,
    answer: Answer,
    sandbox: Sandbox,
    secret: int,
    budget: Budget | None = None,
) -> Verdict:
    """Run an answer in a sandbox, with inputs drawn from a secret seed, and return the verdict.

    The judge applies the same rules as ``grade``. A missing or invalid answer is wrong, and the
    verdict gives the reason. If our own code fails, the verdict is "grader failed". If the grader
    fails twice on an answer but not on the reference, the verdict reports this. The ``remarks``
    point out suspicious code for the instructor to review. If ``budget`` is given, the judge also
    searches for an edit that repairs a wrong answer, and adds it to the finding.

    The answer first runs without the code around it. If it does not pass, it runs with this code.
    """
    try:
        reading = read(answer.cells, exercise, answer.name)
        whole = answer.with_cells(reading.cells)
        alone = answer.with_cells(keep_answer(whole.cells, whole.name))
        work = sandbox, secret
        if alone == whole:
            return _held(
                _tried(exercise, whole, *work, noticed := Noticed(), budget), reading, noticed
            )
        by_itself = _tried(exercise, alone, *work, noticed := Noticed())
        own_reading = read(alone.cells, exercise, alone.name)
        if by_itself.status == "passed":
            return _held(by_itself, own_reading, noticed)
        verdict = _tried(exercise, whole, *work, around := Noticed(), budget)
        if verdict.status == "passed":
            computes = isinstance(exercise, FunctionExercise | RoutineExercise)
            return _held(verdict, reading, around, *([_DEPENDS] if computes else []))
        if verdict.status == "wrong" and noticed.is_defined and not around.is_defined:
            because = f"{_ALONE}: {verdict.message.removesuffix('.')}"
            return _held(by_itself, own_reading, noticed, because)
        return _held(verdict, reading, around)
    except Exception as error:
        return Verdict(_ours(error))


def _held(verdict: Verdict, reading: Reading, noticed: Noticed, *remarks: str) -> Verdict:
    """Return the verdict on an answer with this source, and with all remarks."""
    seen = (f"replaces {name} while it runs" for name in noticed.replaced)
    told = reading.held_against(verdict)
    return plain(replace(told, remarks=(*told.remarks, *seen, *remarks)))


def _tried(
    exercise: Exercise,
    answer: Answer,
    sandbox: Sandbox,
    secret: int,
    noticed: Noticed,
    budget: Budget | None = None,
) -> Verdict:
    work = sandbox, secret, noticed
    verdict = _verdict(exercise, answer, *work, budget)
    failed = "grader failed"
    if verdict.status == failed:  # try again, because a random failure rarely happens twice
        verdict = _verdict(exercise, answer, *work)
    if verdict.status == failed and _verdict(exercise, None, *work).status != failed:
        return Verdict(Hindered(verdict.reason), remarks=(_LOOK,))
    return verdict


def _verdict(
    exercise: Exercise,
    answer: Answer | None,
    sandbox: Sandbox,
    secret: int,
    noticed: Noticed,
    budget: Budget | None = None,
) -> Verdict:
    """Judge an answer. If ``answer`` is ``None``, judge the reference instead."""
    try:
        seconds = _seconds(exercise, sandbox.limits)
        limits = sandbox.limits.stretched(seconds / sandbox.limits.question)
        with sandbox.child(limits) as child, isolated():
            return _examined(exercise, answer, Asked(child, noticed), secret, seconds, budget)
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
    """Return how many seconds an answer may take to reply to a question.

    A value of 0 means that there is no limit. Answers to a slow exercise get more time.
    """
    own = exercise.seconds if isinstance(exercise, Sampled) else None
    usual = limits.question if VARIABLE not in os.environ else limit_in_seconds()
    return max(usual, own) if usual and own else usual


def _examined(
    exercise: Exercise,
    answer: Answer | None,
    asked: Asked,
    secret: int,
    seconds: float,
    budget: Budget | None,
) -> Verdict:
    begin = _begin(exercise, answer, seconds)
    if len(json.dumps(begin)) > LONGEST_HEADER:
        raise UnansweredError(
            f"the code that the answer needs has more than {LONGEST_HEADER >> 20} MiB. Remove data "
            "and outputs from the cells."
        )
    code = b"" if answer else packed(stub_submission(exercise))
    said = asked.ask_code(begin, code).said
    lacking = text(said.get("lacking", ""))
    if lacking and not answer:
        return Verdict(MissingRequirement(lacking, in_sandbox=True))
    if (problem := said.get("problem")) is not None:
        raised = said.get("raised") is True
        verdict = Verdict(CodeRaised(text(problem)) if raised else WrongBecause(text(problem)))
    else:
        asked.noticed.is_defined |= answer is not None  # the reference follows a failed answer
        verdict = _asked_about(exercise, answer, asked, secret, said, budget)
    if after := text(said.get("after", "")):
        remark = f"it fails after it has defined the answer: {after.removesuffix('.')}"
        verdict = replace(verdict, remarks=(*verdict.remarks, remark))
    if lacking and verdict.raised:
        return Verdict(MissingRequirement(lacking, in_sandbox=True))
    return verdict


def _begin(exercise: Exercise, answer: Answer | None, seconds: float) -> dict[str, Any]:
    """Return the first message to the child process.

    It contains the code and the kind of answer.
    """
    begin: dict[str, Any] = {
        "cells": answer.cells if answer else [],
        "name": answer.name if answer else "",
        "seconds": seconds,
        "kind": _KINDS[type(exercise)],
    }
    if exercise.needs:
        begin["needs"] = exercise.needs.__name__
    if isinstance(exercise, RoutineExercise):
        begin["counts"] = argument_counts(exercise)
    return begin


_KINDS: dict[type[Exercise], str] = {
    FunctionExercise: "function",
    RoutineExercise: "routine",
    LocatingExercise: "text",
    PredictionExercise: "numbers",
}


def _asked_about(
    exercise: Exercise,
    answer: Answer | None,
    asked: Asked,
    secret: int,
    said: dict[str, Any],
    budget: Budget | None,
) -> Verdict:
    match exercise:
        case FunctionExercise():
            if problem := submission_problem(exercise, _submitted(said)):
                return problem
            samples = seeds.samples(exercise, secret)
            remote = RemoteFunction(exercise, asked, secret)
            order = FunctionOrder(exercise, remote, samples, timed=False)
            verdict = order.verdict()
            if budget and answer:
                verdict = with_repair(exercise, answer, remote, verdict, budget)
            return replace(verdict, also=_also(order, verdict))
        case RoutineExercise():
            takes = said.get("takes", True) is True
            if problem := routine_problem(exercise, _submitted(said), takes=takes):
                return problem
            samples = seeds.samples(exercise, secret)
            routine = RemoteRoutine(exercise, asked, secret)
            return RoutineOrder(exercise, routine, samples, timed=False).verdict()
        case LocatingExercise():
            return judge_location(exercise, _typed(said))
        case PredictionExercise():
            return judge_prediction(exercise, _typed(said))
    raise TypeError(f"nobody judges a {type(exercise).__name__}")


def _submitted(said: dict[str, Any]) -> Submitted:
    kind = said.get("submitted")
    if kind not in KINDS:
        raise UnansweredError("the answer is of no kind.")
    return Submitted(cast(Kind, kind), text(said.get("name", "")))


def _also(order: FunctionOrder, verdict: Verdict) -> tuple[str, ...]:
    """Return any other rules that an answer breaks, or ``("",)`` if the examination fails."""
    try:
        return order.also(verdict.finding) if verdict.finding else ()
    except (UnansweredError, StoppedError, CannotDiagnoseError, SandboxError, BrokenError):
        return ("",)


def _typed(said: dict[str, Any]) -> Any:
    if "text" in said:
        return text(said["text"])
    return instance(text(said["type"])) if "type" in said else None


def _stopped(seconds: float, where: str) -> Reason:
    return Stopped(seconds, where) if where else OutOfTime(seconds)
