"""Import large packages quickly."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Turn off the garbage collector for a block of imports.

    Imports create hardly any garbage, and collecting takes a third of the time that importing
    PyTorch takes. At the end, all objects are frozen: the collector never visits them again, so
    forked processes keep sharing their memory.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@atexit.register
def _thaw() -> None:
    """If nanobind is in use, unfreeze all objects at exit, because it reports frozen ones as leaks.

    This takes a second. Triton in PyTorch 2.15 uses nanobind.
    """
    if any(kind.__module__ == "nanobind" for kind in object.__subclasses__()):
        gc.unfreeze()
