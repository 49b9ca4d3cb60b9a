"""What the functions of this package, of PyTorch and of Python were before the cells ran.

A submission that replaces one may do so for reasons of its own. It is reported, and the original
is put back, so that what the child says of itself cannot be forged by rebinding a name. Code that
is out to deceive can do more than that, in a process of its own: see ``classroom.judging``.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import json
import linecache
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat as _endlessly
from operator import attrgetter
from operator import is_ as _is
from types import FunctionType, ModuleType
from typing import Any

import safetensors.torch
import torch
from torch.autograd import Function

from autograd_course.grader.exercise import Exercise

_OURS = "autograd_course"
_MOST = 10  # names that are told
_MODULES = (builtins, inspect, json, linecache, signal, struct, traceback, safetensors.torch)
_OF_TORCH = (
    "torch", "torch._tensor", "torch.autograd", "torch.autograd.forward_ad",
    "torch.autograd.function", "torch.autograd.functional", "torch.autograd.gradcheck",
    "torch.autograd.graph", "torch.func", "torch.functional", "torch.library", "torch.linalg",
    "torch.nn.functional", "torch.random", "torch.testing", "torch.utils._pytree",
)  # fmt: skip
# Not nn.Module: the compiler wraps its constructor when it is first used.
_CLASSES = (torch.Tensor, torch._C.TensorBase, *Function.__mro__[:-1])
# What the answer to a plain question goes through: all that is not far, or is near all the same.
_FAR = ("torch.", f"{_OURS}.")
_NEAR = (f"{_OURS}.classroom.", f"{_OURS}.grader.judging.", f"{_OURS}.grader.judge.")
_WRAPPED = (staticmethod, classmethod)
_NOTHING = object()
_DEVICE = torch.device("cpu")
# As Python has them: a submission may rebind the names, these among them.
_all, _map, _vars, _code_of = all, map, vars, attrgetter("__code__")


@dataclass(frozen=True)
class _Place:
    """An attribute: its name, what it was (or that it was none), and the code it ran."""

    name: str
    value: Any
    code: Any

    def restored(self, owner: Any) -> str:
        """Put back what was there; return the name of what was changed, if it was."""
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
                # An exercise is frozen.
                put = object.__setattr__ if isinstance(owner, Exercise) else setattr
                put(owner, self.name, self.value)
        if recoded:
            return f"the code of {_function(self.value).__qualname__}"
        return _told(owner, self.name)


class _Owner:
    """What a module, a class or an exercise held."""

    def __init__(self, owner: Any, places: Iterable[_Place]) -> None:
        self._owner, self._places = owner, tuple(places)
        home = owner.__module__ if isinstance(owner, type) else getattr(owner, "__name__", _OURS)
        self.is_near = not f"{home}.".startswith(_FAR) or f"{home}.".startswith(_NEAR)
        self._names = tuple(place.name for place in self._places)
        self._values = tuple(place.value for place in self._places)
        coded = [place for place in self._places if place.code is not None]
        self._functions = tuple(_function(place.value) for place in coded)
        self._codes = tuple(place.code for place in coded)

    def changed(self) -> bool:
        """Whether anything is not what it was.

        It is asked after every answer, of thousands of places: no Python runs for each of them.
        """
        now = _map(_vars(self._owner).get, self._names, _endlessly(_NOTHING))
        codes = _map(_code_of, self._functions)
        return not (_all(_map(_is, now, self._values)) and _all(_map(_is, codes, self._codes)))

    def restored(self) -> Iterator[str]:
        """Put back what was there; yield the names of what was changed."""
        return filter(None, [place.restored(self._owner) for place in self._places])


class Integrity:
    """Where everything was when this was made, before a submission runs; what it replaced since."""

    def __init__(self, noted: tuple[_Owner, ...] | None = None) -> None:
        self._noted = tuple(_noted()) if noted is None else noted
        self._near = tuple(owner for owner in self._noted if owner.is_near)
        self._replaced: dict[str, None] = {}

    def of(self, exercise: Exercise) -> Integrity:
        """Return the same, with what an exercise asks besides."""
        return Integrity((*self._noted, _Owner(exercise, _places(exercise))))

    def restore(self, *, near: bool = False) -> None:
        """Put back what was replaced, Python's own functions first.

        ``near``: only in what asks, answers and runs this, which takes a tenth of the time.
        """
        for owner in self._near if near else self._noted:
            if owner.changed():
                self._replaced.update(dict.fromkeys(owner.restored()))
        if torch.get_default_device() != _DEVICE:
            torch.set_default_device(None)
            self._replaced["the default device"] = None

    def told(self, *, near: bool = False) -> dict[str, list[str]]:
        """Put back what was replaced; tell the names of all that ever was."""
        self.restore(near=near)
        return {"replaced": list(self._replaced)[:_MOST]} if self._replaced else {}


def _noted() -> Iterator[_Owner]:
    modules = [sys.modules[name] for name in _OF_TORCH if name in sys.modules]
    ours = [m for name, m in sys.modules.items() if name.partition(".")[0] == _OURS]
    for module in dict.fromkeys((*_MODULES, *modules, *ours)):
        yield _Owner(module, _places(module))
    for owner in _CLASSES:
        yield _Owner(owner, _inherited(owner))
    for owner in dict.fromkeys((*_CLASSES, socket.socket, *_classes(ours))):
        yield _Owner(owner, _places(owner))


def _classes(modules: list[ModuleType]) -> Iterator[type]:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def _places(owner: Any) -> Iterator[_Place]:
    """Yield what can be called; of an exercise, everything."""
    for name, value in vars(owner).items():
        if isinstance(owner, Exercise) or callable(value) or isinstance(value, _WRAPPED):
            yield _Place(name, value, _code(value))


def _inherited(owner: type) -> Iterator[_Place]:
    """Yield what a class has from others only, and what would stand before those."""
    for name in set(dir(owner)) - vars(owner).keys():
        yield _Place(name, _NOTHING, None)


def _told(owner: Any, name: str) -> str:
    if isinstance(owner, Exercise):
        return f"the exercise's {name}"
    home = f"{owner.__module__}." if isinstance(owner, type) else ""
    return f"{home}{getattr(owner, '__qualname__', owner.__name__)}.{name}"


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, _WRAPPED) else value


def _code(value: Any) -> Any:
    function = _function(value)
    return function.__code__ if isinstance(function, FunctionType) else None
