"""Answers to the judge's questions about one submission, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograd_course.classroom.protocol import Frame
from autograd_course.doctor import DoctorError
from autograd_course.doctor.diagnosing import look
from autograd_course.doctor.running.calls import first_line
from autograd_course.doctor.running.time_limit import TimeUp, time_limit
from autograd_course.doctor.wire import pack, unpack
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.judge import quiet_world
from autograd_course.grader.judging.function import Present
from autograd_course.grader.judging.limits import seconds_for
from autograd_course.grader.judging.passes import Raised
from autograd_course.grader.raised import place

Answer = Callable[["Desk", dict[str, Any], tuple[Any, ...]], Frame]


class Desk:
    """Answers about one answer to one exercise."""

    def __init__(self, exercise: FunctionExercise, answer: Any) -> None:
        self.exercise, self.answer = exercise, answer
        self.present = Present(exercise, answer)

    def answered(self, question: Frame) -> Frame:
        """Return the answer; what kept it from being found is an answer too."""
        try:
            inputs = unpack(question.payload) if question.payload else ()
            with time_limit(seconds_for(self.exercise)), quiet_world():
                return _ANSWERS[question.said["ask"]](self, question.said, inputs)
        except TimeUp as stop:
            return Frame({"stopped": place(stop, self.answer)})
        except DoctorError as error:
            return Frame({"unexamined": first_line(error)})
        except Exception as error:
            return Frame({"failed": f"{type(error).__name__}: {first_line(error)}"})


def _signature(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    problem = desk.present.signature(inputs)
    return Frame({"problem": problem and problem.message})


def _forward(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    came = desk.present.forward(inputs)
    return _raised(came) if isinstance(came, Raised) else Frame({}, pack(came))


def _backward(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    came = desk.present.backward(inputs)
    return _raised(came) if came else Frame({})


def _raised(came: Raised) -> Frame:
    return Frame({"raised": came.told, "unwritten": came.unwritten})


def _method(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    problem = desk.present.method(inputs)
    if problem is None:
        return Frame({})
    found = problem.finding
    return Frame({"found": found and found.to_dict(), "unwritten": problem.message})


def _look(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    twice = desk.exercise.double_backward
    seen = look(desk.answer, inputs, double_backward=twice, seed=said["seed"])
    return Frame({}, pack(tuple(seen)))


def _gradients(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    return Frame({}, pack(desk.present.gradients(inputs)))


def _checked(desk: Desk, said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    found = desk.present.checked(said["check"], inputs)
    return Frame({"found": found and found.to_dict()})


_ANSWERS: dict[str, Answer] = {
    "signature": _signature,
    "forward": _forward,
    "backward": _backward,
    "method": _method,
    "look": _look,
    "gradients": _gradients,
    "check": _checked,
}
