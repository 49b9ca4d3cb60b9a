"""Speed up the import of large packages."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Turn off the garbage collector while a ``with`` block imports packages.

    Imports create hardly any garbage, but garbage collection accounts for a third of PyTorch's
    import time. At the end of the block, all objects are frozen (``gc.freeze``). The collector does
    not visit frozen objects, so forked processes keep sharing their memory.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@atexit.register
def _thaw() -> None:
    """Unfreeze all objects at exit if nanobind is loaded, because nanobind reports them as leaks.

    This takes a second. Triton in PyTorch 2.15 uses nanobind.
    """
    if any(kind.__module__ == "nanobind" for kind in object.__subclasses__()):
        gc.unfreeze()
