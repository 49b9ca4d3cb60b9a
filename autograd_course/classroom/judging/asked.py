"""Ask what is behind the wall: an answer, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autograd_doctor import CannotDiagnoseError
from torch import Tensor

from autograd_course.classroom.protocol import Frame, Malformed
from autograd_course.classroom.protocol.wire import pack, unpack
from autograd_course.classroom.sandbox.running import Child
from autograd_course.errors import CourseError
from autograd_course.execution import Raised

_LONGEST = 2000  # characters of a text that is shown
_MOST = 10  # names that are told


class UnansweredError(CourseError):
    """No answer came, or none that could be one; the message is a sentence for the learner."""


class StoppedError(CourseError):
    """The answer's own time limit stopped it; the message says where in its code."""


class BrokenError(CourseError):
    """Our own code failed in the sandbox; the message says how."""


@dataclass(frozen=True)
class Asked:
    """A sandbox's child; ``replaced`` names what its code replaced that is not its own."""

    child: Child
    replaced: dict[str, None] = field(default_factory=dict)

    def ask(self, said: dict[str, Any], inputs: tuple[Any, ...] | None = None) -> Frame:
        """Return the answer to a question, where there is one."""
        return self._answer(Frame(said) if inputs is None else _about(said, inputs))

    def ask_code(
        self, said: dict[str, Any], code: bytes, inputs: tuple[Any, ...] | None = None
    ) -> Frame:
        """Return the answer to a question that a parcel comes with (``judging.parcels``)."""
        about = Frame(said) if inputs is None else _about(said, inputs)
        return self._answer(Frame(about.said | {"code": len(code)}, code + about.payload))

    def _answer(self, question: Frame) -> Frame:
        came = self.child.ask(question)
        if isinstance(came, Malformed):
            raise UnansweredError(came.reason)
        self._note(came.said.get("replaced"))
        if "unfit" in came.said:
            raise UnansweredError(text(came.said["unfit"]))
        if "stopped" in came.said:
            raise StoppedError(text(came.said["stopped"]))
        if "unexamined" in came.said:
            raise CannotDiagnoseError(text(came.said["unexamined"]))
        if "failed" in came.said:
            raise BrokenError(text(came.said["failed"]))
        return came

    def _note(self, names: Any) -> None:
        if isinstance(names, list):
            self.replaced.update(dict.fromkeys(map(text, names[:_MOST])))


def _about(said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    """Return the question; whether a tensor asks for a gradient does not travel with it."""
    asking = [p for p, v in enumerate(inputs) if isinstance(v, Tensor) and v.requires_grad]
    return Frame(said | {"differentiated": asking}, pack(inputs))


def raised(came: Frame) -> Raised | None:
    """Return how a call raised, if that is the answer."""
    if "raised" not in came.said:
        return None
    return Raised(
        text(came.said["raised"]),
        text(came.said.get("unwritten", "")),
        separate=came.said.get("separate") is True,
    )


def returned(came: Frame) -> tuple[Any, ...]:
    """Return what a call returned; of what could not travel, something of a type of that name."""
    values, types = sequence(came), came.said.get("types")
    stays = types if isinstance(types, dict) else {}
    return tuple(
        instance(text(stays[str(place)])) if str(place) in stays else value
        for place, value in enumerate(values)
    )


def instance(name: str) -> Any:
    """Return an object of which nothing but the name of its type is known."""
    return type(name.encode(errors="replace").decode().replace("\0", "?"), (), {})()


def sequence(came: Frame) -> tuple[Any, ...]:
    """Return the values that came."""
    value = unpacked(came)
    if not isinstance(value, tuple):
        raise UnansweredError("the answer is no list of values.")
    return value


def unpacked(came: Frame) -> Any:
    """Return the data that came."""
    try:
        return unpack(came.payload)
    except ValueError:
        raise UnansweredError("the answer holds no tensors that can be read.") from None


def text(value: Any) -> str:
    """Return what came as a text that can be shown."""
    return str(value)[:_LONGEST]
