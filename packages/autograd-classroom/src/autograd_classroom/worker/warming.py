"""Run the slow initialization of PyTorch and the doctor once, before the first child is forked.

Some modules of PyTorch take half a second to import, and most submissions do not need them. The
template imports them after the first child that needed them.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from autograd_doctor.extension import time_limit
from torch.autograd import Function

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.wire import pack
from autograd_classroom.worker import given, replies  # noqa: F401 - experiments use replies
from autograd_classroom.worker.handlers import Handlers
from autograd_classroom.worker.tamper_check import TamperCheck

_WARM = 120.0  # time limit in seconds for the first answers, which import modules


def warm() -> TamperCheck:
    """Answer a few trial questions. Then return a record of the original functions."""
    given.provide()
    inputs = (torch.linspace(-2, 2, 15, dtype=torch.float64).reshape(3, 5),)
    handlers = Handlers("function", _Warm, TamperCheck(()), _WARM)
    with time_limit(_WARM):  # inside this block, the shorter time limit for answers has no effect
        looking = {"ask": "look", "seed": 0, "thorough": True, "varied": True}
        looking["double_backward"] = None
        for ask in ({"ask": "forward"}, {"ask": "backward"}, looking):
            said = {k: v for k, v in handlers.answered(Frame(ask, pack(inputs))).said.items() if v}
            assert not said, f"a right answer could not be examined: {said}"
    return TamperCheck()


_SLOW = ("sympy", "torch._dynamo")


def has_slow() -> bool:
    """Return whether this process has imported some of the slow modules."""
    return any(name in sys.modules for name in _SLOW)


def import_slow() -> None:
    """Import the modules that ``torch.autograd.grad`` and the meta device need."""
    torch.empty(1, device="meta") * 2


class _Warm(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_outputs[0]
