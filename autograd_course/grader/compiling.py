"""``torch.compile`` with a compiled call that raises where its graph would break."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

Call = Callable[..., Any]


def compile_whole(call: Call) -> Call:
    """Return the call compiled into one graph; if that is impossible, its first use raises."""
    return torch.compile(_own(call), backend="aot_eager", fullgraph=True, dynamic=False)


def compile_unbroken(call: Call) -> Call:
    """Return the call compiled by default options; a graph break raises at its first use.

    ``fullgraph=True`` is more lenient: it traces a size that depends on values. Within a Function,
    PyTorch 2.11 does so too and 2.13 does not.
    """
    by_default = torch.compile(_own(call), backend="aot_eager", dynamic=False)

    def caller(*args: Any) -> Any:
        with torch._dynamo.error_on_graph_break(True):
            return by_default(*args)

    return caller


def _own(call: Call) -> Call:
    """Return the call in a code object of its own: PyTorch caches what it compiles by code."""

    def caller(*args: Any) -> Any:
        return call(*args)

    return FunctionType(caller.__code__.replace(), caller.__globals__, closure=caller.__closure__)


@contextmanager
def silence() -> Iterator[None]:
    """Let PyTorch log nothing: what it has to say is in the exception."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
