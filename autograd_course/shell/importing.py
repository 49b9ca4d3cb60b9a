"""Import much, quickly."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import in a block without looking for garbage: it makes hardly any, and all it makes stays.

    Looking for it takes a third of the time that PyTorch does. What is there at the end is never
    looked through again, so that forks go on sharing the memory that it lies in.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@atexit.register
def _thaw() -> None:
    """Let the end of the process find what nanobind made: of what is left it complains on stderr.

    Only then, for it takes a second. The Triton of PyTorch 2.15 is so made.
    """
    if any(kind.__module__ == "nanobind" for kind in object.__subclasses__()):
        gc.unfreeze()
