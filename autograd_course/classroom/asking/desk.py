"""Answers to the judge's questions about one submission, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from autograd_doctor import CannotDiagnoseError
from autograd_doctor.extension import TimeUp, time_limit

from autograd_course.classroom.asking import functions, routines
from autograd_course.classroom.asking.integrity import Integrity
from autograd_course.classroom.asking.pulling import pulled
from autograd_course.classroom.asking.unusual import unusual
from autograd_course.classroom.protocol import Frame
from autograd_course.classroom.protocol.wire import unpack
from autograd_course.errors import first_line
from autograd_course.execution import isolated, place

# Answers that the judge proves outside, or asks for again when the doctor looks.
_PLAIN = ("signature", "forward", "backward", "gradients", "edits")

Say = Callable[[Any, dict[str, Any], tuple[Any, ...]], Frame]
_ANSWERS: Mapping[str, Mapping[str, Say]] = {
    "function": {**functions.ANSWERS, "pull": pulled},
    "routine": {**routines.ANSWERS, "pull": pulled},
}


class Desk:
    """Answers questions about one answer. Each question has a time limit in ``seconds``."""

    def __init__(self, kind: str, answer: Any, integrity: Integrity, seconds: float) -> None:
        self.kind, self.answer, self.integrity = kind, answer, integrity
        self._seconds = seconds
        self._plainly = False  # whether the last question was plain

    def answered(self, question: Frame) -> Frame:
        """Return the answer, with the names of what the submission replaced, and restore the
        originals.

        A full check takes longer than a plain question. It is therefore postponed until before the
        next question that is not plain.
        """
        plain = question.said.get("ask") in _PLAIN
        if self._plainly and not plain:
            self.integrity.restore()
        came = self._answered(question)
        self._plainly = plain
        return replace(came, said=came.said | self.integrity.told(near=plain))

    def _answered(self, question: Frame) -> Frame:
        """Return the answer. If an error prevents it, return the error as the answer."""
        inputs: tuple[Any, ...] = ()
        try:
            said, inputs = _read(question)
            with time_limit(self._seconds), isolated():
                return _ANSWERS[self.kind][said["ask"]](self.answer, said, inputs)
        except TimeUp as stop:
            where = place(stop, self.answer)
            why = {"stopped": where}
            return Frame(why) if where else self._unfit(inputs, why)
        except CannotDiagnoseError as error:
            return self._unfit(inputs, {"unexamined": first_line(error)})
        except Exception as error:
            return self._unfit(inputs, {"failed": f"{type(error).__name__}: {first_line(error)}"})

    def _unfit(self, inputs: tuple[Any, ...], otherwise: dict[str, str]) -> Frame:
        """Say which part of the answer cannot be examined, if that is why the question failed."""
        if self.kind != "function":
            return Frame(otherwise)
        try:
            with time_limit(self._seconds), isolated():
                found = unusual(self.answer, inputs)
        except TimeUp:
            found = ""
        return Frame({"unfit": found} if found else otherwise)


def _read(question: Frame) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the question, with the judge's code if it contains any, and the inputs."""
    length = question.said.get("code", 0)
    code, data = question.payload[:length], question.payload[length:]
    inputs: tuple[Any, ...] = unpack(data) if data else ()
    for position in question.said.get("differentiated", ()):
        inputs[position].requires_grad_()
    return question.said | {"parcel": code}, inputs
