"""Answer the judge's questions about a routine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.parcel import opened
from autograd_classroom.worker.values import raised, returned
from autograd_course.calls import as_tuple
from autograd_course.execution import Raised, raised_by, run_routine
from autograd_course.submitted import other_container

Inputs = tuple[Any, ...]
Answer = Callable[..., Any]


def _called(answer: Answer, said: dict[str, Any], _: Inputs) -> Frame:
    """Call the routine with a sample from the judge, which can contain models and functions."""
    came = run_routine(answer, opened(said["parcel"]))
    if isinstance(came, Raised):
        return raised(came)
    if other := other_container(came, said["container"]):
        return Frame({"container": other})
    return returned(as_tuple(came))


def _tried(answer: Answer, said: dict[str, Any], _: Inputs) -> Frame:
    """Run one of the judge's experiments, which can observe more than the returned values."""
    torch.manual_seed(said["seed"])
    try:
        came = opened(said["parcel"])(answer)
    except (Exception, SystemExit) as error:
        return raised(raised_by(error, answer))
    return Frame({"status": came.status, "message": came.message} if came else {})


ANSWERS: Mapping[str, Callable[[Answer, dict[str, Any], Inputs], Frame]] = {
    "call": _called,
    "try": _tried,
}
