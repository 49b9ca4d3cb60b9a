"""The main loop of a child process: run one submission, then answer the judge's questions."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import EllipsisType
from typing import Any

from autograd_doctor.extension import TimeUp, time_limit

from autograd_classroom.protocol import Frame, Malformed, read, write
from autograd_classroom.protocol.parcel import opened
from autograd_classroom.worker import cells
from autograd_classroom.worker.handlers import Handlers
from autograd_classroom.worker.tamper_check import TamperCheck
from autograd_classroom.worker.warming import has_slow
from autograd_course.execution import isolated
from autograd_course.external import compiler_missing
from autograd_course.submitted import (
    numbers,
    routine_takes,
    submitted_function,
    submitted_routine,
)

# Maps each feature that an exercise may need to a function. The function returns a message if this
# machine lacks the feature.
_NEEDS: Mapping[str, Callable[[], str | None]] = {"compiler_missing": compiler_missing}
_ENDLESS = (
    "the cell itself was stopped after {:g} s. Is there an endless loop outside of the methods? If "
    "the code is only slow, make it faster."
)


def serve_child(channel: socket.socket, integrity: TamperCheck) -> None:
    """Run the submission in the first message, then answer questions until the socket closes.

    An answer says ``slow`` if this process has imported slow modules that the template lacks.
    """
    handlers: Handlers | None = None
    had_slow = has_slow()
    while isinstance(question := read(channel), Frame):
        if handlers is None:
            answer, handlers = _begun(question, integrity)
        else:
            answer = handlers.answered(question)
        if has_slow() and not had_slow:
            answer = replace(answer, said=answer.said | {"slow": True})
        if isinstance(write(channel, answer), Malformed):
            return


def _begun(question: Frame, integrity: TamperCheck) -> tuple[Frame, Handlers | None]:
    """Run the cells. Return a description of the answer, and handlers if it takes questions."""
    said = question.said
    # Check this before any other code can influence the result.
    lacking = _NEEDS[said["needs"]]() if said.get("needs") else None
    came, handlers = _run(question, integrity)
    told = {"lacking": lacking} if lacking else {}
    return replace(came, said=came.said | integrity.told(near=True) | told), handlers


def _run(question: Frame, integrity: TamperCheck) -> tuple[Frame, Handlers | None]:
    said = question.said
    try:
        with time_limit(said["seconds"]), isolated():
            answer, error_after = _answer(question, integrity)
    except cells.CellError as error:
        return Frame({"problem": str(error), "raised": True}), None
    except TimeUp:
        return Frame({"problem": _ENDLESS.format(said["seconds"])}), None
    except LookupError:
        return Frame({"problem": _missing(said["name"])}), None
    came, handlers = _handled(said, answer, integrity)
    return replace(came, said=came.said | ({"after": error_after} if error_after else {})), handlers


def _handled(
    said: Mapping[str, Any], answer: Any, integrity: TamperCheck
) -> tuple[Frame, Handlers | None]:
    if said["kind"] == "text":
        return _typed(answer), None
    if said["kind"] == "numbers":
        return _numbers(answer), None
    found = (submitted_function if said["kind"] == "function" else submitted_routine)(answer)
    came: dict[str, Any] = {"submitted": found.kind, "name": found.name}
    if found.kind != "right":
        return Frame(came), None
    if said["kind"] == "function":
        integrity.watch(answer)
    if "counts" in said:
        came["takes"] = routine_takes(answer, said["counts"])
    return Frame(came), Handlers(said["kind"], answer, integrity, said["seconds"])


def _answer(question: Frame, integrity: TamperCheck) -> tuple[Any, str]:
    """Return the answer that the cells define, and any error that they raise after its definition.

    If the judge sent a callable, return its result.
    """
    if question.payload:
        return opened(question.payload)(), ""
    try:
        return cells.run(question.said["cells"], question.said["name"])
    finally:
        integrity.restore()  # a full check, because the next check covers only some modules


def _typed(answer: Any) -> Frame:
    """Return a frame with the text of a short answer.

    If the answer is not a string, the frame contains its type name. If there is no answer, the
    frame is empty.
    """
    if isinstance(answer, str):
        return Frame({"text": answer})
    nothing = answer is None or isinstance(answer, EllipsisType)
    return Frame({} if nothing else {"type": type(answer).__name__})


def _numbers(answer: Any) -> Frame:
    """Return a frame with the predicted numbers as text.

    If the answer does not consist of numbers, the frame contains its type name. If a number is
    missing, the frame is empty.
    """
    predicted = numbers(answer)
    if predicted is None:
        return Frame({"type": type(answer).__name__})
    written = bool(predicted) and None not in predicted
    return Frame({"text": ", ".join(map(str, predicted))} if written else {})


def _missing(name: str) -> str:
    return f"the cell defines no {name}: keep the name that the exercise asks for."
