"""One forward and one backward pass as the caller would make them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.cases import wanted
from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.running.calls import attempt
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.running.subject import Subject


def ordinary_pass(subject: Subject, args: Sequence[Any], seed: int) -> None:
    """Run forward and backward once on copies of the caller's example, in its own dtypes.

    Whatever they raise is left to the diagnosis.
    """
    given = [value.detach() if isinstance(value, Tensor) else value for value in args]
    session = Session(subject, given, wanted(args), seed)

    def both() -> None:
        outputs = [out for out in session.run(watched=False).floats if out.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(out) for out in outputs])

    with suppress(DoctorError):
        attempt(both)
