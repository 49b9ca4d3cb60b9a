"""Answer the judge's questions about one submission. The answers contain only plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from autograd_doctor import CannotDiagnoseError
from autograd_doctor.extension import TimeUp, time_limit

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.wire import unpack
from autograd_classroom.worker import functions, routines
from autograd_classroom.worker.pulling import pulled
from autograd_classroom.worker.tamper_check import TamperCheck
from autograd_classroom.worker.values import unusual
from autograd_course.errors import first_line
from autograd_course.execution import isolated, place

# After these questions, a quick tamper check is enough, because the judge checks the answers itself
# or asks the questions again during the diagnosis.
_PLAIN = ("signature", "forward", "backward", "gradients", "edits")

Say = Callable[[Any, dict[str, Any], tuple[Any, ...]], Frame]
_ANSWERS: Mapping[str, Mapping[str, Say]] = {
    "function": {**functions.ANSWERS, "pull": pulled},
    "routine": {**routines.ANSWERS, "pull": pulled},
}


class Handlers:
    """An object that answers the judge's questions about a submission, each within ``seconds``."""

    def __init__(self, kind: str, answer: Any, integrity: TamperCheck, seconds: float) -> None:
        self.kind, self.answer, self.integrity = kind, answer, integrity
        self._seconds = seconds
        self._plainly = False  # whether the last question was plain

    def answered(self, question: Frame) -> Frame:
        """Answer a question. Then list and restore the functions that the submission has replaced.

        A full check for replaced functions takes longer than a plain question. After a plain
        question, postpone the full check until the next question that is not plain.
        """
        plain = question.said.get("ask") in _PLAIN
        if self._plainly and not plain:
            self.integrity.restore()
        came = self._answered(question)
        self._plainly = plain
        return replace(came, said=came.said | self.integrity.told(near=plain))

    def _answered(self, question: Frame) -> Frame:
        """Return the answer or, if an error occurs, a description of the error."""
        inputs: tuple[Any, ...] = ()
        try:
            said, inputs = _read(question)
            answer = self.integrity.guarded(self.answer) if said["ask"] == "try" else self.answer
            with time_limit(self._seconds), isolated():
                return _ANSWERS[self.kind][said["ask"]](answer, said, inputs)
        except TimeUp as stop:
            where = place(stop, self.answer)
            why = {"stopped": where}
            return Frame(why) if where else self._unfit(inputs, why)
        except CannotDiagnoseError as error:
            return self._unfit(inputs, {"unexamined": first_line(error)})
        except Exception as error:
            return self._unfit(inputs, {"failed": f"{type(error).__name__}: {first_line(error)}"})

    def _unfit(self, inputs: tuple[Any, ...], otherwise: dict[str, str]) -> Frame:
        """If a result cannot be examined, return the reason. Otherwise, return ``otherwise``."""
        if self.kind != "function":
            return Frame(otherwise)
        try:
            with time_limit(self._seconds), isolated():
                found = unusual(self.answer, inputs)
        except TimeUp:
            found = ""
        return Frame({"unfit": found} if found else otherwise)


def _read(question: Frame) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the question and the inputs. ``parcel`` in the question is code from the judge."""
    length = question.said.get("code", 0)
    code, data = question.payload[:length], question.payload[length:]
    inputs: tuple[Any, ...] = unpack(data) if data else ()
    for position in question.said.get("differentiated", ()):
        inputs[position].requires_grad_()
    return question.said | {"parcel": code}, inputs
