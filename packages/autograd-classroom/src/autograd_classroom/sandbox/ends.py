"""Explain to a student why their code did not answer one of the judge's questions."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

from autograd_classroom.protocol import Malformed
from autograd_classroom.sandbox.limits import MIB, Limits

_OVER: Mapping[str, Callable[[Limits], str]] = {
    "memory": lambda limits: (
        f"the code took more than the {limits.memory // MIB} MiB of memory it may take."
    ),
    "cpu": lambda limits: (
        f"the code was stopped: its processes computed for more than {limits.cpu} s together."
    ),
    "whole": lambda limits: (
        f"the code was stopped: its answers took more than {limits.whole:g} s together."
    ),
    "started": lambda limits: (
        f"the code was stopped: it started more than {limits.started:,} processes or threads."
    ),
}


def told(came: Malformed, how: Mapping[str, Any], limits: Limits) -> str:
    """Return a sentence that explains why the child did not send a valid answer.

    ``came`` describes the invalid answer, and ``how`` describes how the child ended.
    """
    if how.get("over") in _OVER:
        return _OVER[how["over"]](limits)
    if came.late:
        return (
            f"the code did not answer within {limits.wall:g} s. Is there an endless loop? If the "
            "code is only slow, make it faster."
        )
    if came.gone and not how.get("killed"):
        return _ended(int(how.get("code", 0)), limits)
    return f"the answer {came.reason}."


def _ended(code: int, limits: Limits) -> str:
    if code == 128 + signal.SIGKILL:
        return (  # the kernel does not say which limit was exceeded
            f"the code was stopped: it computed for more than {limits.cpu} s, took too much, "
            "or killed itself."
        )
    if code > 128:
        return f"the code crashed Python ({_name(code - 128)}), as by writing to foreign memory."
    return f"the code ended the process before it had answered (exit code {code})."


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
