"""Unpack the functions and classes that the judge sends to the worker.

The worker cannot import these functions and classes, because the sandbox does not contain their
modules. The judge therefore packs each callable together with everything that the callable uses
(``judge.parcels``). Parcels go into the sandbox but never out of it.
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
        """Return an object from a module. If no name is given, return the module itself."""
        module, name = pid
        found = import_module(module)
        return getattr(found, name) if name else found


def opened(data: bytes) -> Any:
    """Return the contents of a parcel from the judge."""
    return _Opener(io.BytesIO(data)).load()


def namespace() -> dict[str, Any]:
    """Return a new globals dictionary for all functions from one module.

    TorchDynamo looks globals up in the module that ``__name__`` names. Without ``__name__``, it
    reads the dictionary itself. No module has this dictionary, so no answer can import from it.
    """
    return {"__builtins__": __builtins__}


def function(space: dict[str, Any], code: bytes, name: str, cells: int) -> FunctionType:
    """Return a function with an empty closure. :func:`complete` sets its closure and globals."""
    closure = tuple(CellType() for _ in range(cells))
    made = FunctionType(marshal.loads(code), space, name, None, closure)
    made.__module__ = __name__  # Python would take it from the globals
    return made


def complete(made: FunctionType, state: tuple[Mapping[str, Any], Sequence[Any], Any]) -> None:
    """Set the globals, the closure contents and the attributes of a function."""
    names, contents, attributes = state
    made.__globals__.update(names)
    for cell, value in zip(made.__closure__ or (), contents, strict=True):
        cell.cell_contents = value
    for name, value in attributes.items():
        setattr(made, name, value)


def cached(function: Any, options: Mapping[str, Any]) -> Any:
    """Wrap a function in ``lru_cache`` with the given options."""
    return lru_cache(**options)(function)


def defined(
    space: dict[str, Any], names: Mapping[str, Any], source: str, name: str, *, postponed: bool
) -> Any:
    """Return the class that the source code defines.

    If ``postponed`` is true, do not evaluate the annotations in the class.
    """
    space.update(names)
    flags = __future__.annotations.compiler_flag if postponed else 0
    space["__name__"] = __name__  # the class and its methods get this ``__module__``
    exec(compile(source, FILE, "exec", flags, dont_inherit=True), space)
    del space["__name__"]
    return space[name]


def complete_class(made: type, state: tuple[dict[str, Any], Mapping[str, Any]]) -> None:
    """Set the globals that the methods of a class use."""
    space, names = state
    space.update(names)
