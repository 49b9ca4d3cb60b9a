"""Collect the source of an answer in this process, as cells in the classroom grader's format."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from autograd_doctor.extension import own_source

from autograd_course.folders import OURS
from autograd_course.grader.reading.tables import OPEN_MODULES

_MOST = 100  # read at most this many functions and methods
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, dict, set, bytearray)
_LIBRARIES = tuple(
    f"{folder}/"
    for folder in (*OURS, Path(torch.__file__).parents[1], Path(inspect.__file__).parent)
)
# In a notebook, learners may use the course's own code. The classroom does not provide it.
_PUBLISHED = "autograd_course.functions"


def source_of(answer: Any) -> list[str]:
    """Return cells that contain the code of an answer and define the names that it uses.

    The cells contain neither library code nor the course's own code, nor code with an unknown
    source. For each import and each data object, one line defines the name.
    """
    bindings: dict[str, str] = {}
    sources: dict[int, str] = {}
    waiting = [answer]
    while waiting and len(sources) < _MOST:
        for function in _functions(waiting.pop()):
            if id(function.__code__) in sources:
                continue
            sources[id(function.__code__)] = _text(function)
            for name, value in _names(function).items():
                if any(_functions(value)):
                    waiting.append(value)
                elif line := _binding(name, value):
                    bindings[name] = line
    return ["\n".join(bindings.values()), *filter(None, sources.values())]


def _functions(value: Any) -> Iterator[FunctionType]:
    """Yield a function, or the methods of a class. Skip code from libraries and from the course."""
    if isinstance(value, type):
        for owner in value.__mro__:
            for part in vars(owner).values():
                if not isinstance(part, type):
                    yield from _functions(getattr(part, "__func__", part))
    elif callable(value) and not isinstance(value, ModuleType):
        value = inspect.unwrap(value)
        if isinstance(value, FunctionType) and not value.__code__.co_filename.startswith(
            _LIBRARIES
        ):
            yield value


def _names(function: FunctionType) -> dict[str, Any]:
    """Return the values of the names that a function and its nested functions use."""
    found: dict[str, Any] = {}
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # the variable is not bound yet
            continue
    left = [function.__code__]
    while left:
        code = left.pop()
        found.update(
            {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
        )
        left += [part for part in code.co_consts if inspect.iscode(part)]
    return found


def _binding(name: str, value: Any) -> str:
    """Return a line that defines a name."""
    if _home(value).startswith(_PUBLISHED):
        return f"{name} = ()"
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, (*_PLAIN, tuple)):
        return f"{name} = ()"
    if isinstance(value, _CONTAINERS):
        return f"{name} = []"
    home, own = _home(value), getattr(value, "__name__", "")
    if home and isinstance(own, str) and own.isidentifier():
        return (
            f"from {_public(home, own, value)} import {own} as {name}" if home != "builtins" else ""
        )
    return f"{name} = ()"


def _home(value: Any) -> str:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return home if isinstance(home, str) else ""


def _public(home: str, name: str, value: Any) -> str:
    """Return the public module from which users import this object, if there is one."""
    top = home.partition(".")[0]
    modules = [path for path in OPEN_MODULES if path.partition(".")[0] == top]
    for path in sorted(modules, key=len):
        if path in sys.modules and vars(sys.modules[path]).get(name) is value:
            return path
    return home


def _text(function: Callable[..., Any]) -> str:
    lines, first = own_source(function) or ([], 1)
    return "\n" * (first - 1) + textwrap.dedent("".join(lines))
