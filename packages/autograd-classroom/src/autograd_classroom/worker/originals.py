"""Record the original attributes of modules and classes, and restore them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat as _endlessly
from operator import attrgetter
from operator import is_ as _is
from types import FunctionType
from typing import Any

_COURSE = "autograd_course"
# Plain questions use only the modules outside of _FAR and the modules in _NEAR.
_FAR = ("torch.", "autograd_doctor.", f"{_COURSE}.")
_NEAR = (f"{_COURSE}.engine.", f"{_COURSE}.execution.", f"{_COURSE}.submitted.")
_WRAPPED = (staticmethod, classmethod)
_NOTHING = object()
# Keep Python's originals, because a submission may rebind the names.
_all, _map, _vars, _code_of = all, map, vars, attrgetter("__code__")
_is_a = isinstance


@dataclass(frozen=True)
class Place:
    """An attribute: its name, its original value, and the code object of this value.

    The value is ``_NOTHING`` if the attribute does not exist. The code is ``None`` if the value is
    not a Python function.
    """

    name: str
    value: Any
    code: Any

    def restored(self, owner: Any) -> str:
        """Restore the original value. Return the attribute's name if it had changed, or ``""``."""
        now = vars(owner).get(self.name, _NOTHING)
        recoded = self.code is not None and _function(self.value).__code__ is not self.code
        if now is self.value and not recoded:
            return ""
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            if recoded:
                _function(self.value).__code__ = self.code
            elif self.value is _NOTHING:
                delattr(owner, self.name)
            else:
                setattr(owner, self.name, self.value)
        if recoded:
            return f"the code of {_function(self.value).__qualname__}"
        return _told(owner, self.name)


class Owner:
    """The original attributes of a module or a class."""

    def __init__(self, owner: Any, places: Iterable[Place]) -> None:
        self._owner, self._places = owner, tuple(places)
        home = owner.__module__ if _is_a(owner, type) else owner.__name__
        self.is_near = not f"{home}.".startswith(_FAR) or f"{home}.".startswith(_NEAR)
        self._names = tuple(place.name for place in self._places)
        self._values = tuple(place.value for place in self._places)
        coded = [place for place in self._places if place.code is not None]
        self._functions = tuple(_function(place.value) for place in coded)
        self._codes = tuple(place.code for place in coded)

    def changed(self) -> bool:
        """Whether any attribute has changed.

        The worker calls this method after every answer, for thousands of attributes. For speed, the
        loops over the attributes run in built-in functions.
        """
        now = _map(_vars(self._owner).get, self._names, _endlessly(_NOTHING))
        codes = _map(_code_of, self._functions)
        return not (_all(_map(_is, now, self._values)) and _all(_map(_is, codes, self._codes)))

    def restored(self) -> Iterator[str]:
        """Restore the original attributes, and yield the names of the changed ones."""
        return filter(None, [place.restored(self._owner) for place in self._places])


def places(owner: Any) -> Iterator[Place]:
    """Yield the callable attributes of a module or a class."""
    for name, value in vars(owner).items():
        if callable(value) or _is_a(value, _WRAPPED):
            yield Place(name, value, _code(value))


def inherited(owner: type) -> Iterator[Place]:
    """For each attribute that a class only inherits, yield a place without a value.

    If a submission overrides the attribute in the class, restoring this place deletes the override.
    """
    for name in set(dir(owner)) - vars(owner).keys():
        yield Place(name, _NOTHING, None)


def _told(owner: Any, name: str) -> str:
    home = f"{owner.__module__}." if _is_a(owner, type) else ""
    return f"{home}{getattr(owner, '__qualname__', owner.__name__)}.{name}"


def _function(value: Any) -> Any:
    return value.__func__ if _is_a(value, _WRAPPED) else value


def _code(value: Any) -> Any:
    function = _function(value)
    return function.__code__ if _is_a(function, FunctionType) else None
