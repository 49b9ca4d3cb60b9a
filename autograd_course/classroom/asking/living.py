"""A child's life: one submission, then one answer a question until nobody asks."""

from __future__ import annotations

import socket
from typing import Any

import torch
from torch.autograd import Function

from autograd_course.classroom.asking import cells
from autograd_course.classroom.asking.desk import Desk
from autograd_course.classroom.protocol import Frame, Malformed, read, write
from autograd_course.doctor.running.time_limit import TimeUp, limit_in_seconds, time_limit
from autograd_course.doctor.wire import pack
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.exercises import CATALOGUE, find
from autograd_course.grader.judge import quiet_world
from autograd_course.grader.judging.submission import submission_problem


def live(channel: socket.socket) -> None:
    """Run the submission that comes first, then answer questions."""
    desk: Desk | None = None
    while isinstance(question := read(channel), Frame):
        if desk is None:
            answer, desk = _begun(question.said)
        else:
            answer = desk.answered(question)
        if isinstance(write(channel, answer), Malformed):
            return


def _begun(said: dict[str, Any]) -> tuple[Frame, Desk | None]:
    """Run the cells; return what is wrong with the answer as it stands, or a desk to ask at."""
    exercise = find(said["exercise"])
    if not isinstance(exercise, FunctionExercise):
        return Frame({"failed": f"nobody asks about a {type(exercise).__name__} yet"}), None
    try:
        with time_limit(limit_in_seconds()), quiet_world():
            defined = cells.run(said["cells"])
    except cells.CellError as error:
        return Frame({"status": "wrong", "problem": str(error)}), None
    except TimeUp:
        return Frame({"status": "wrong", "problem": _ENDLESS}), None
    if said["name"] not in defined:
        return Frame({"status": "wrong", "problem": _missing(said["name"])}), None
    answer = defined[said["name"]]
    if problem := submission_problem(exercise, answer):
        return Frame({"status": problem.status, "problem": problem.message}), None
    return Frame({"problem": None}), Desk(exercise, answer)


_WARM = 120.0  # seconds for the first of all answers, which imports on its way
_ENDLESS = "the cell itself ran too long: does a loop outside of the methods never end?"


def _missing(name: str) -> str:
    return f"the cell defines no {name}: keep the name that the exercise asks for."


def warm() -> None:
    """Do once, before any child is born, whatever PyTorch and the doctor do on their first call."""
    exercise = CATALOGUE["square"]
    assert isinstance(exercise, FunctionExercise)
    inputs = next(iter(exercise.samples().values()))
    desk = Desk(exercise, _Warm)
    with time_limit(_WARM):  # inside which the limit of an answer is none
        for ask in ({"ask": "forward"}, {"ask": "backward"}, {"ask": "look", "seed": 0}):
            said = desk.answered(Frame(ask, pack(inputs))).said
            assert not said, f"a right answer could not be examined: {said}"


class _Warm(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_outputs[0]
