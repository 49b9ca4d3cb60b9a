"""Unpack the judge's code in the worker, which has no module with these functions and classes.

The judge packs a callable with everything that it needs (``judge.parcels``), because the sandbox
has no module from which to import it. This module only unpacks it. Parcels are only sent into the
sandbox, never out of it.
"""

from __future__ import annotations
import __future__

import io
import marshal
import pickle
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from types import CellType, FunctionType
from typing import Any

# The file name that tracebacks show for this code.
FILE = "/course/experiment.py"


class _Opener(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        """Return a module of the worker, or an object from a module."""
        module, name = pid
        found = import_module(module)
        return getattr(found, name) if name else found


def opened(data: bytes) -> Any:
    """Return the contents of a parcel from the judge."""
    return _Opener(io.BytesIO(data)).load()


def namespace() -> dict[str, Any]:
    """Return a new dictionary for the globals that the functions of one module share."""
    return {"__name__": __name__, "__builtins__": __builtins__}


def function(space: dict[str, Any], code: bytes, name: str, cells: int) -> FunctionType:
    """Return a function without its globals and the contents of its closure, which follow later."""
    closure = tuple(CellType() for _ in range(cells))
    return FunctionType(marshal.loads(code), space, name, None, closure)


def complete(made: FunctionType, state: tuple[Mapping[str, Any], Sequence[Any], Any]) -> None:
    """Give a function its globals, its attributes and the contents of its closure."""
    names, contents, attributes = state
    made.__globals__.update(names)
    for cell, value in zip(made.__closure__ or (), contents, strict=True):
        cell.cell_contents = value
    for name, value in attributes.items():
        setattr(made, name, value)


def cached(function: Any, options: Mapping[str, Any]) -> Any:
    """Return a function that caches its results."""
    return lru_cache(**options)(function)


def defined(
    space: dict[str, Any], names: Mapping[str, Any], source: str, name: str, *, postponed: bool
) -> Any:
    """Return the class that the source defines. If ``postponed``, its annotations remain text."""
    space.update(names)
    flags = __future__.annotations.compiler_flag if postponed else 0
    exec(compile(source, FILE, "exec", flags, dont_inherit=True), space)
    return space[name]


def complete_class(made: type, state: tuple[dict[str, Any], Mapping[str, Any]]) -> None:
    """Give a class's methods their globals."""
    space, names = state
    space.update(names)
