"""Send questions to a process in the sandbox, and parse its replies."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from autograd_doctor import CannotDiagnoseError
from torch import Tensor

from autograd_classroom.protocol import Frame, Malformed
from autograd_classroom.protocol.wire import pack, unpack
from autograd_classroom.sandbox.limits import MIB
from autograd_classroom.sandbox.running import Child
from autograd_course.errors import CourseError
from autograd_course.execution import Raised

_LONGEST = 2000  # maximum number of characters in a displayed text
_NO_MEMORY = re.compile(r"\bMemoryError\b|can't allocate memory")
_MOST = 10  # maximum number of reported names


class UnansweredError(CourseError):
    """Raised when the sandbox's reply is missing or invalid.

    The message is for the learner.
    """


class StoppedError(CourseError):
    """Raised when an answer exceeds its time limit.

    The message describes where the answer stopped.
    """


class BrokenError(CourseError):
    """Raised when our own code fails in the sandbox. The message describes the error."""


@dataclass
class Noticed:
    """What the judge notices while an answer runs.

    ``is_defined`` says whether the cells have defined the answer. ``replaced`` lists the library
    functions that the answer has replaced.
    """

    is_defined: bool = False
    replaced: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A child process in the sandbox."""

    child: Child
    noticed: Noticed = field(default_factory=Noticed)

    def ask(self, said: dict[str, Any], inputs: tuple[Any, ...] | None = None) -> Frame:
        """Send a question to the child process and return the reply.

        Raises an error if there is no valid reply.
        """
        return self._answer(Frame(said) if inputs is None else _about(said, inputs))

    def ask_code(
        self, said: dict[str, Any], code: bytes, inputs: tuple[Any, ...] | None = None
    ) -> Frame:
        """Send a question together with a parcel (see ``judge.parcels``), and return the reply."""
        about = Frame(said) if inputs is None else _about(said, inputs)
        return self._answer(Frame(about.said | {"code": len(code)}, code + about.payload))

    def _answer(self, question: Frame) -> Frame:
        came = self.child.ask(question)
        if isinstance(came, Malformed):
            raise UnansweredError(came.reason)
        self._note(came.said.get("replaced"))
        self._name_limit(came.said)
        if "unfit" in came.said:
            raise UnansweredError(text(came.said["unfit"]))
        if "stopped" in came.said:
            raise StoppedError(text(came.said["stopped"]))
        if "unexamined" in came.said:
            raise CannotDiagnoseError(text(came.said["unexamined"]))
        if "failed" in came.said:
            raise BrokenError(text(came.said["failed"]))
        return came

    def _name_limit(self, said: dict[str, Any]) -> None:
        """If the code raised an error because it got no memory, add the limit to the message."""
        for key in ("raised", "problem"):
            if _NO_MEMORY.search(message := text(said.get(key, ""))):
                most = f"the code may take {self.child.limits.memory // MIB} MiB of memory."
                said[key] = f"{message.removesuffix('.')}; {most}"

    def _note(self, names: Any) -> None:
        if isinstance(names, list):
            self.noticed.replaced.update(dict.fromkeys(map(text, names[:_MOST])))


def _about(said: dict[str, Any], inputs: tuple[Any, ...]) -> Frame:
    """Build a question about the given inputs.

    The question lists the inputs that require grad, because a sent tensor loses this flag.
    """
    asking = [p for p, v in enumerate(inputs) if isinstance(v, Tensor) and v.requires_grad]
    return Frame(said | {"differentiated": asking}, pack(inputs))


def raised(came: Frame) -> Raised | None:
    """Return a description of the exception that a call raised, or ``None`` if it raised none."""
    if "raised" not in came.said:
        return None
    return Raised(
        text(came.said["raised"]),
        text(came.said.get("unwritten", "")),
        separate=came.said.get("separate") is True,
    )


def returned(came: Frame) -> tuple[Any, ...]:
    """Return the results of a call.

    Replace a value that the sandbox could not send with an empty object whose type has the same
    name.
    """
    values, types = sequence(came), came.said.get("types")
    stays = types if isinstance(types, dict) else {}
    return tuple(
        instance(text(stays[str(place)])) if str(place) in stays else value
        for place, value in enumerate(values)
    )


def instance(name: str) -> Any:
    """Return an empty object whose type has the given name."""
    return type(name.encode(errors="replace").decode().replace("\0", "?"), (), {})()


def sequence(came: Frame) -> tuple[Any, ...]:
    """Return the values in a frame, which must be a tuple."""
    value = unpacked(came)
    if not isinstance(value, tuple):
        raise UnansweredError("the answer is no list of values.")
    return value


def unpacked(came: Frame) -> Any:
    """Return the data that a frame contains."""
    try:
        return unpack(came.payload)
    except ValueError:
        raise UnansweredError("the answer holds no tensors that can be read.") from None


def text(value: Any) -> str:
    """Convert a value to text, and truncate it for display."""
    return str(value)[:_LONGEST]
