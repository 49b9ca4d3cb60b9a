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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
_WRAPPED = (staticmethod, classmethod)
_NOTHING = object()
_DEVICE = torch.device("cpu")


@dataclass(frozen=True)
class _Place:
    """An attribute: whose, what it was (or that it was none), the code it ran, its full name."""

    owner: Any
    name: str
    value: Any
    code: Any
    put: Callable[[Any, str, Any], None]
    told: str

    def restored(self) -> str:
        """Put back what was there; return the name of what was changed, if it was."""
        now = vars(self.owner).get(self.name, _NOTHING)
        recoded = self.code is not None and _function(self.value).__code__ is not self.code
        if now is self.value and not recoded:
            return ""
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            if recoded:
                _function(self.value).__code__ = self.code
            elif self.value is _NOTHING:
                delattr(self.owner, self.name)
            else:
                self.put(self.owner, self.name, self.value)
        return f"the code of {_function(self.value).__qualname__}" if recoded else self.told


class Integrity:
    """Where everything was when this was made, before a submission runs; what it replaced since."""

    def __init__(self, noted: tuple[_Place, ...] | None = None) -> None:
        self._noted = tuple(_noted()) if noted is None else noted
        self._replaced: dict[str, None] = {}

    def of(self, exercise: Exercise) -> Integrity:
        """Return the same, with what an exercise asks besides."""
        return Integrity((*self._noted, *_places(exercise, vars(exercise))))

    def restore(self) -> None:
        """Put back what was replaced, Python's own functions first."""
        for place in self._noted:
            if name := place.restored():
                self._replaced[name] = None
        if torch.get_default_device() != _DEVICE:
            torch.set_default_device(None)
            self._replaced["the default device"] = None

    def told(self) -> dict[str, list[str]]:
        """Put back what was replaced; tell the names of all that ever was."""
        self.restore()
        return {"replaced": list(self._replaced)[:_MOST]} if self._replaced else {}


def _noted() -> Iterator[_Place]:
    modules = [sys.modules[name] for name in _OF_TORCH if name in sys.modules]
    ours = [m for name, m in sys.modules.items() if name.partition(".")[0] == _OURS]
    for module in (*_MODULES, *modules, *ours):
        yield from _places(module, vars(module))
    for owner in _CLASSES:
        yield from _inherited(owner)
    for owner in (*_CLASSES, socket.socket, *_classes(ours)):
        yield from _places(owner, vars(owner))


def _classes(modules: list[ModuleType]) -> Iterator[type]:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def _places(owner: Any, values: Mapping[str, Any]) -> Iterator[_Place]:
    """Yield what can be called; of an exercise, everything."""
    own = isinstance(owner, Exercise)
    put = object.__setattr__ if own else setattr  # an exercise is frozen
    for name, value in values.items():
        if own or callable(value) or isinstance(value, _WRAPPED):
            yield _Place(owner, name, value, _code(value), put, _told(owner, name))


def _inherited(owner: type) -> Iterator[_Place]:
    """Yield what a class has from others only, and what would stand before those."""
    for name in set(dir(owner)) - vars(owner).keys():
        yield _Place(owner, name, _NOTHING, None, setattr, _told(owner, name))


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
