"""Answers to the judge's questions about a Function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autograd_doctor.extension import collect_evidence
from autograd_doctor.repair_search import Question, edited, run_edits
from torch import Tensor

from autograd_course.classroom.asking.borrowing import own_work
from autograd_course.classroom.asking.unusual import kind, too_many
from autograd_course.classroom.asking.values import returned
from autograd_course.classroom.protocol import Frame
from autograd_course.classroom.protocol.wire import pack
from autograd_course.execution import Raised
from autograd_course.grader.kinds.function import LocalFunction

Inputs = tuple[Any, ...]


def raised(came: Raised) -> Frame:
    """Return the frame that tells how a call raised."""
    said = {"raised": came.told, "unwritten": came.unwritten, "separate": came.separate}
    return Frame(said)


def _signature(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    problem = present.signature(inputs)
    return Frame({"problem": problem and problem.message})


def _forward(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    came = own_work(lambda: present.forward(inputs))
    return raised(came) if isinstance(came, Raised) else returned(came)


def _backward(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    came = own_work(lambda: present.backward(inputs))
    return raised(came) if came else Frame({})


def _method(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    problem = present.method(inputs)
    if problem is None:
        return Frame({})
    found = problem.finding
    return Frame({"found": found and found.to_dict(), "unwritten": problem.message})


def _look(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    if many := too_many(present.answer, inputs):
        return Frame({"unfit": many})
    seen = collect_evidence(
        edited(present.answer, said.get("sources") or {}),
        inputs,
        double_backward=present.exercise.double_backward,
        thorough=said["thorough"],
        seed=said["seed"],
    )
    return Frame({}, pack(tuple(seen)))


def _edits(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    """Run the answer with other methods, as the judge asks who searches for a repair."""
    args, sent = inputs[: said["inputs"]], inputs[said["inputs"] :]
    question = Question(args, said["wanted"], sent, ())
    came = run_edits(present.answer, said["edits"], question, seed=said["seed"])
    return Frame({}, pack(tuple(each and tuple(map(_sent, each)) for each in came)))


def _sent(values: Inputs | None) -> Inputs | None:
    """Return what travels: a value that is no dense tensor is neither a gradient nor an output."""
    return values and tuple(v if isinstance(v, Tensor) and not kind(v) else None for v in values)


def _gradients(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    return Frame({}, pack(present.gradients(inputs)))


def _checked(present: LocalFunction, said: dict[str, Any], inputs: Inputs) -> Frame:
    found = present.checked(said["check"], inputs)
    return Frame({"found": found and found.to_dict()})


ANSWERS: Mapping[str, Callable[[LocalFunction, dict[str, Any], Inputs], Frame]] = {
    "signature": _signature,
    "forward": _forward,
    "backward": _backward,
    "method": _method,
    "look": _look,
    "edits": _edits,
    "gradients": _gradients,
    "check": _checked,
}
