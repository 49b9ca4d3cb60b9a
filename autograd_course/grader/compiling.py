"""Variants of ``torch.compile`` that raise an error at a graph break."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

Call = Callable[..., Any]


def compile_whole(call: Call) -> Call:
    """Compile the call into one graph. The first call raises an error if this is impossible."""
    return torch.compile(_own(call), backend="aot_eager", fullgraph=True, dynamic=False)


def compile_unbroken(call: Call) -> Call:
    """Compile the call with default options. The first call raises an error at a graph break.

    ``fullgraph=True`` is more lenient, because it also traces tensor sizes that depend on the data.
    PyTorch 2.11 traces these sizes even within a Function, but 2.13 does not.
    """
    by_default = torch.compile(_own(call), backend="aot_eager", dynamic=False)

    def caller(*args: Any) -> Any:
        with torch._dynamo.error_on_graph_break(True):
            return by_default(*args)

    return caller


def _own(call: Call) -> Call:
    """Wrap the call in a new code object, so that PyTorch does not reuse compiled code."""

    def caller(*args: Any) -> Any:
        return call(*args)

    return FunctionType(caller.__code__.replace(), caller.__globals__, closure=caller.__closure__)


@contextmanager
def silence() -> Iterator[None]:
    """Disable all logging, because the exception contains everything that PyTorch would log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
