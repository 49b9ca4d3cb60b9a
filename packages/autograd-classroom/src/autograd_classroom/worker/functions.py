"""Answer the judge's questions about a Function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor.extension import as_given, collect_evidence
from autograd_doctor.repair_search import Question, edited, run_edits
from torch.autograd import Function

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.parcel import opened
from autograd_classroom.protocol.wire import pack
from autograd_classroom.worker.values import raised, returned, too_many, travels
from autograd_course.calls import takes_ctx
from autograd_course.execution import (
    Computed,
    Raised,
    gradients,
    run_backward,
    run_check,
    run_forward,
)
from autograd_course.submitted import forward_takes, lacking_method

Inputs = tuple[Any, ...]
Answer = type[Function]


def _signature(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    takes = forward_takes(answer, inputs)
    return Frame({"takes": takes, "separate": not takes_ctx(answer)})


def _forward(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    came = run_forward(answer, inputs)
    return raised(came) if isinstance(came, Raised) else returned(came)


def _backward(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    came = run_backward(answer, inputs)
    return raised(came) if came else Frame({})


def _method(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    found = lacking_method(answer, said["methods"], inputs)
    if found is None:
        return Frame({})
    return Frame({"lacks": found.method, "stub": found.is_stub, "name": answer.__name__})


def _look(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    if many := too_many(answer, inputs):
        return Frame({"unfit": many})
    seen = collect_evidence(
        edited(answer, said.get("sources") or {}),
        inputs,
        double_backward=said["double_backward"],
        sampler=None if said["varied"] else as_given,
        thorough=said["thorough"],
        seed=said["seed"],
    )
    return Frame({}, pack(tuple(seen)))


def _edits(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    """Run the answer with edited methods, which the judge sends when it searches for a repair."""
    args, sent = inputs[: said["inputs"]], inputs[said["inputs"] :]
    question = Question(args, said["wanted"], sent, ())
    came = run_edits(answer, said["edits"], question, seed=said["seed"])
    return Frame({}, pack(tuple(each and tuple(map(_sent, each)) for each in came)))


def _sent(values: Inputs | None) -> Inputs | None:
    """Replace all values that cannot be sent with ``None``."""
    return values and tuple(value if travels(value) else None for value in values)


def _gradients(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    return Frame({}, pack(gradients(answer.apply, inputs)))


def _check(answer: Answer, said: dict[str, Any], inputs: Inputs) -> Frame:
    """Run one of the judge's experiments, which can observe more than the returned values."""
    torch.manual_seed(said["seed"])
    found = run_check(opened(said["parcel"]), answer, inputs)
    if isinstance(found, Raised):
        return raised(found)
    if isinstance(found, Computed):
        parts = found.inputs, found.outputs, found.sent, found.gradients
        return Frame({"computed": True}, pack(tuple(map(_sent, parts))))
    return Frame({"found": found and found.to_dict()})


ANSWERS: Mapping[str, Callable[[Answer, dict[str, Any], Inputs], Frame]] = {
    "signature": _signature,
    "forward": _forward,
    "backward": _backward,
    "method": _method,
    "look": _look,
    "edits": _edits,
    "gradients": _gradients,
    "check": _check,
}
