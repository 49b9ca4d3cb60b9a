"""Check the result of a call that a trial measures.

A routine can recognize a trial by its inputs or by the order of the calls. A trial that measures a
call therefore also checks the result of the same call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.verdict import Verdict, wrong

CLOSE = 1e-3  # relative to the largest number; a trial compares with an approximation


def is_far(came: Any, right: Tensor) -> bool:
    """Return whether a result is not even close to the right one."""
    if not isinstance(came, Tensor) or came.shape != right.shape:
        return True
    largest = float(right.abs().max()) if right.numel() else 0.0
    return not torch.allclose(came.detach().to(right.dtype), right, CLOSE, CLOSE * largest)


def far_result(came: Any, right: Tensor, where: str) -> Verdict | None:
    """Return a verdict if the result of a measured call is wrong. ``where`` describes the call."""
    if not is_far(came, right):
        return None
    return wrong(
        f"right for other inputs, but {where} the result is wrong. Which step of your code depends "
        "on the size of the inputs?"
    )
