"""A child's life: one submission, then one answer a question until nobody asks."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import replace
from types import EllipsisType
from typing import Any

from autograd_doctor.extension import TimeUp, time_limit

from autograd_course.classroom.asking import cells
from autograd_course.classroom.asking.desk import Desk
from autograd_course.classroom.asking.integrity import Integrity
from autograd_course.classroom.protocol import Frame, Malformed, read, write
from autograd_course.execution import isolated
from autograd_course.grader.catalogue import find
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    LocatingExercise,
    PredictionExercise,
    RoutineExercise,
)
from autograd_course.grader.kinds.function import submission_problem
from autograd_course.grader.kinds.predicting import numbers
from autograd_course.grader.kinds.routine import routine_problem
from autograd_course.grader.limits import prepare
from autograd_course.grader.verdict import Verdict

_ENDLESS = (
    "the cell itself was stopped after {:g} s. Is there an endless loop outside of the methods? If "
    "the code is only slow, make it faster."
)


def live(channel: socket.socket, integrity: Integrity) -> None:
    """Run the submission that comes first, then answer questions."""
    desk: Desk | None = None
    while isinstance(question := read(channel), Frame):
        if desk is None:
            answer, desk = _begun(question.said, integrity)
        else:
            answer = desk.answered(question)
        if isinstance(write(channel, answer), Malformed):
            return


def _begun(said: dict[str, Any], integrity: Integrity) -> tuple[Frame, Desk | None]:
    """Run the cells; return what is wrong with the answer as it stands, or a desk to ask at."""
    exercise = find(said["exercise"])
    noted = integrity.of(exercise)
    lacking = exercise.needs() if exercise.needs else None  # asked before anybody else can answer
    came, desk = _run(exercise, said, noted)
    told = {"lacking": lacking} if lacking else {}
    return replace(came, said=came.said | noted.told(near=True) | told), desk


def _run(
    exercise: Exercise, said: Mapping[str, Any], integrity: Integrity
) -> tuple[Frame, Desk | None]:
    prepare()  # before the clock starts
    try:
        with time_limit(said["seconds"]), isolated():
            defined = _defined(said["cells"], integrity)
    except cells.CellError as error:
        return Frame({"status": "wrong", "problem": str(error), "raised": True}), None
    except TimeUp:
        return _refused("wrong", _ENDLESS.format(said["seconds"])), None
    if said["name"] not in defined:
        return _refused("wrong", _missing(said["name"])), None
    answer = defined[said["name"]]
    if isinstance(exercise, LocatingExercise):
        return _typed(answer), None
    if isinstance(exercise, PredictionExercise):
        return _numbers(answer), None
    if problem := _problem(exercise, answer):
        return _refused(problem.status, problem.message), None
    return Frame({"problem": None}), Desk(exercise, answer, integrity, said["seconds"])


def _defined(sources: list[str], integrity: Integrity) -> dict[str, Any]:
    try:
        return cells.run(sources)
    finally:
        integrity.restore()  # what goes on from here is what it was


def _problem(exercise: Exercise, answer: Any) -> Verdict | None:
    match exercise:
        case FunctionExercise():
            return submission_problem(exercise, answer)
        case RoutineExercise():
            return routine_problem(exercise, answer)
    raise TypeError(f"nobody asks about a {type(exercise).__name__}")


def _typed(answer: Any) -> Frame:
    """Return an answer of a few characters: as text, nothing, or the name of what it is instead."""
    if isinstance(answer, str):
        return Frame({"text": answer})
    nothing = answer is None or isinstance(answer, EllipsisType)
    return Frame({} if nothing else {"type": type(answer).__name__})


def _numbers(answer: Any) -> Frame:
    """Return predicted numbers as text, nothing, or the name of what the answer is instead."""
    predicted = numbers(answer)
    if predicted is None:
        return Frame({"type": type(answer).__name__})
    written = bool(predicted) and None not in predicted
    return Frame({"text": ", ".join(map(str, predicted))} if written else {})


def _refused(status: str, problem: str) -> Frame:
    return Frame({"status": status, "problem": problem})


def _missing(name: str) -> str:
    return f"the cell defines no {name}: keep the name that the exercise asks for."
