"""Resolve dotted paths, such as ``torch.nn.functional.relu``, in the libraries that answers use."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

from torch.backends import PropModule

from autograd_course.grader.reading.tables import OPEN_MODULES


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that an import statement defines, and the path that the name refers to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            if alias.name == "*":
                yield from ((name, f"{node.module}.{name}") for name in public(node.module or ""))
            else:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def module(path: str) -> ModuleType | None:
    """Return the module with this dotted path, or ``None``.

    A module that answers may not use is found only if Python has already imported it.
    """
    found = value_at(path)
    return found if isinstance(found, ModuleType) else None


def value_at(path: str) -> Any:
    """Return the module with this dotted path, the value of a name in a module, or ``None``."""
    return _resolved(path)[1]


def derives(path: str, bases: type | tuple[type, ...]) -> bool:
    """Return whether a path leads to one of these classes, or to a class that derives from one."""
    found = value_at(path)
    return isinstance(found, type) and issubclass(found, bases)


def canonical(path: str) -> str:
    """Return the path under which PyTorch and other libraries define what a path leads to.

    For example, ``torch.nn.functional.torch.func.jvp`` leads to ``torch.func.jvp``.
    """
    return _resolved(path)[0]


@lru_cache(10_000)
def _resolved(path: str) -> tuple[str, Any]:
    home, *rest = path.split(".")
    found: Any = loaded(home)
    for position, name in enumerate(rest):
        if not isinstance(found, ModuleType):
            return ".".join((home, *rest[position:])), None
        found = _inner(found, name)
        home = found.__name__ if isinstance(found, ModuleType) else f"{home}.{name}"
    return home, found


def _inner(owner: ModuleType, name: str) -> Any:
    parts = vars(owner)
    if isinstance(owner, PropModule):  # torch.backends.cudnn reads the names of another module
        parts = {**vars(owner.m), **parts}
    inner = parts.get(name)
    return loaded(f"{owner.__name__}.{name}") if inner is None else inner


@lru_cache(10_000)
def creator(path: str) -> str:
    """Return the part of a path that creates its attributes when code reads them, or ``""``.

    The source does not show what such an attribute is. For example, ``torch.classes`` does so.
    """
    parts = path.split(".")
    for end in range(1, len(parts)):
        owner = ".".join(parts[:end])
        found = value_at(owner)
        if found is None or isinstance(found, type) or not hasattr(type(found), "__getattr__"):
            continue
        known = inspect.getattr_static(found, parts[end], None)
        if known is None and value_at(f"{owner}.{parts[end]}") is None:
            return owner
    return ""


def is_submodule(path: str) -> bool:
    """Return whether the path leads to a module that Python has not imported yet."""
    owner, _, name = path.rpartition(".")
    if name in vars(module(owner) or sys):
        return False
    try:
        return importlib.util.find_spec(path) is not None
    except (ImportError, ValueError):
        return False


def public(name: str) -> tuple[str, ...]:
    """Return the names that ``from name import *`` defines, or none if they are unknown."""
    found = loaded(name)
    if found is None:
        return ()
    return tuple(getattr(found, "__all__", [each for each in vars(found) if each[:1] != "_"]))


def loaded(path: str) -> ModuleType | None:
    """Return a module that Python has imported or that answers may use, otherwise ``None``."""
    if path in OPEN_MODULES and path not in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(path)
    return sys.modules.get(path)
