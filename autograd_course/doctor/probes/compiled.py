"""Hold torch.compile against eager mode.

The backend only traces (``aot_eager``): what differs is due to the tracing, not to a compiler. A
caller of our own is compiled, each time from a new code object, because dynamo keeps what it knows
of a function on its code; the user's code is traced as a part of it and keeps nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from textwrap import shorten
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.probes.confirmed import Plain, asked
from autograd_course.doctor.probes.twins import twin
from autograd_course.doctor.running.calls import as_tuple, fresh, users_last, users_line
from autograd_course.doctor.running.passes import Pass, copies, gradients
from autograd_course.doctor.running.session import Run, Session
from autograd_course.doctor.world.randomness import reseed

TOLERANCE = 1e-6  # tracing may replace an operation by others that round otherwise
LONGEST = 200  # characters of a reason

Call = Callable[..., Any]


def compiled(session: Session, evidence: Evidence) -> Evidence:
    """Put the compiled call beside the plain one, where torch.compile works at all."""
    if not _available():
        return evidence
    return asked(session, evidence, _question, draws=False)


def _question(session: Session, evidence: Evidence, plain: Plain) -> Iterator[Twin]:
    came = _traced(session, plain)
    yield twin(evidence, "compile", "under torch.compile", came, plain.done, tolerance=TOLERANCE)


def _traced(session: Session, plain: Plain) -> Pass:
    leaves, args = fresh(plain.inputs, session.wanted)
    reseed(session.seed)
    session.subject.around.begin(args)
    try:
        with silence():
            returned = as_tuple(whole(session.subject.call)(*args))
            run = Run(leaves, args, returned)
            grads = gradients(run, copies(plain.grad_outputs))
    except Exception as error:
        return Pass(failure=reason(error), stage="tracing")
    outputs = tuple(out.detach().clone() for out in run.floats)
    return Pass(outputs, tuple(g if g is None else g.detach() for g in grads))


def whole(call: Call) -> Call:
    """Return the call, compiled into one graph; where it cannot be, its first use raises."""
    return torch.compile(_own(call), backend="aot_eager", fullgraph=True, dynamic=False)


def unbroken(call: Call) -> Call:
    """Return the call, compiled by default options; a break of the graph raises at its first use.

    ``fullgraph=True`` is more lenient: it traces a size that depends on values; within a Function,
    so does PyTorch 2.11 and not 2.13.
    """
    by_default = torch.compile(_own(call), backend="aot_eager", dynamic=False)

    def caller(*args: Any) -> Any:
        with torch._dynamo.error_on_graph_break(True):
            return by_default(*args)

    return caller


def _own(call: Call) -> Call:
    def caller(*args: Any) -> Any:
        return call(*args)

    code = caller.__code__.replace()
    return FunctionType(code, caller.__globals__, closure=caller.__closure__)


@contextmanager
def silence() -> Iterator[None]:
    """Let dynamo log nothing: what it has to say is in the exception."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class _Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return 2 * grad_output


@cache
def _available() -> bool:
    """Whether torch.compile works here, on a Function that nothing is wrong with."""
    x = torch.ones(2, requires_grad=True)
    try:
        with silence():
            torch.autograd.grad(whole(_Doubled.apply)(x).sum(), x)
    except Exception:
        return False
    return True


def reason(error: Exception) -> Failure:
    """Return in one line why dynamo stopped, and the user's line that it had come to."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    why = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    text = re.sub(r"\b0x[0-9a-fA-F]+", "0x…", ": ".join([*lines[:1], *why[:1]]))
    traced = getattr(error, "real_stack", None)  # what was being traced never ran
    line = users_last(traced) if traced else users_line(error)
    return Failure(type(error).__name__, shorten(text, LONGEST, placeholder=" …"), line)
