"""Answers to the judge's questions about a routine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from autograd_course.classroom.asking.borrowing import own_work
from autograd_course.classroom.asking.functions import raised
from autograd_course.classroom.asking.values import returned
from autograd_course.classroom.protocol import Frame
from autograd_course.execution import Raised
from autograd_course.grader.kinds.routine import LocalRoutine

Inputs = tuple[Any, ...]


def _called(present: LocalRoutine, said: dict[str, Any], _: Inputs) -> Frame:
    """Call it on a sample drawn here: models and callables, which some take, do not travel."""
    sample = said["sample"]
    inputs = present.exercise.samplers[sample](torch.Generator().manual_seed(said["seed"]))
    came = own_work(lambda: present.called(sample, inputs), inputs)
    return raised(came) if isinstance(came, Raised) else returned(came)


def _tried(present: LocalRoutine, said: dict[str, Any], _: Inputs) -> Frame:
    came = present.tried()
    if isinstance(came, Raised):
        return raised(came)
    return Frame({"status": came.status, "message": came.message} if came else {})


ANSWERS: Mapping[str, Callable[[LocalRoutine, dict[str, Any], Inputs], Frame]] = {
    "call": _called,
    "try": _tried,
}
