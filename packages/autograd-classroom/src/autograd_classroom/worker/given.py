"""Placeholders for the parts of the course that are not in the sandbox.

The sandbox contains only the parts that answers use, such as data sets and functions that compile
C++. A learner's cells can also import other names, for example to call ``grade`` or to draw a
figure. In the sandbox, these names refer to placeholders that do nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Self

from autograd_course.functions.attention.dropout import dropped
from autograd_course.lesson import HOMES

# The names that have no effect in the sandbox, grouped by module.
_ABSENT = {
    "autograd_course.explaining": ("explain",),
    "autograd_course.grader": ("grade", "hint", "progress", "reset"),
    "autograd_course.replicas": (),
    "autograd_course.visualize": (),
}
_ANY = (
    "autograd_course.replicas",
    "autograd_course.visualize",
)  # modules from which any name can be imported


class Nothing:
    """A placeholder that does nothing. Every call and attribute returns the placeholder itself."""

    def __call__(self, *args: Any, **options: Any) -> Self:
        """Do nothing, and return the placeholder itself."""
        return self

    def __getattr__(self, name: str) -> Self:
        """Return the placeholder itself, unless ``name`` is one of Python's special names."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> Self:
        """Enter a ``with`` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave a ``with`` block without suppressing its exception."""

    def __repr__(self) -> str:
        return "(not in the sandbox)"


class _Any(ModuleType):
    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return _NOTHING


_NOTHING = Nothing()


def provide() -> None:
    """Make the missing names importable by adding placeholders for them."""
    attention: Any = import_module("autograd_course.functions.attention")
    attention.dropped = dropped
    for home, names in (_ABSENT | HOMES).items():
        module = _module(home)
        for name in names:
            if not hasattr(module, name):
                setattr(module, name, _NOTHING)


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        made = _Any(name) if name in _ANY else ModuleType(name)
        sys.modules[name] = made
        return made
