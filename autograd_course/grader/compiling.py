"""``torch.compile``, where the compiled call raises an error at a graph break."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

Call = Callable[..., Any]


def compile_whole(call: Call) -> Call:
    """Return the call compiled into one graph. Its first use raises if that is impossible."""
    return torch.compile(_own(call), backend="aot_eager", fullgraph=True, dynamic=False)


def compile_unbroken(call: Call) -> Call:
    """Return the call compiled with default options. Its first use raises at a graph break.

    ``fullgraph=True`` is more lenient, because it also traces sizes that depend on values. PyTorch
    2.11 traces such sizes even within a Function, but 2.13 does not.
    """
    by_default = torch.compile(_own(call), backend="aot_eager", dynamic=False)

    def caller(*args: Any) -> Any:
        with torch._dynamo.error_on_graph_break(True):
            return by_default(*args)

    return caller


def _own(call: Call) -> Call:
    """Copy the call's code object, because PyTorch caches compiled code by code object."""

    def caller(*args: Any) -> Any:
        return call(*args)

    return FunctionType(caller.__code__.replace(), caller.__globals__, closure=caller.__closure__)


@contextmanager
def silence() -> Iterator[None]:
    """Suppress PyTorch's log, because the exception contains all information."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
