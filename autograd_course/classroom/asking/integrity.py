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
from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True)
class _Place:
    """An attribute: whose, what it was, and the code that it ran."""

    owner: Any
    name: str
    value: Any
    code: Any

    @property
    def changed(self) -> bool:
        """Whether something else is there now, or the same function runs other code."""
        now = vars(self.owner).get(self.name)
        return now is not self.value or (self.code is not None and _code(now) is not self.code)

    def restore(self) -> None:
        """Put back what was there, where that is possible."""
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            if self.code is not None:
                _function(self.value).__code__ = self.code
            put = object.__setattr__ if isinstance(self.owner, Exercise) else setattr
            put(self.owner, self.name, self.value)

    @property
    def told(self) -> str:
        """The full name of it."""
        owner = self.owner
        if self.code is not None and vars(owner).get(self.name) is self.value:
            return f"the code of {_function(self.value).__qualname__}"  # whatever its names are
        if isinstance(owner, Exercise):
            return f"the exercise's {self.name}"
        home = f"{owner.__module__}." if isinstance(owner, type) else ""
        return f"{home}{getattr(owner, '__qualname__', owner.__name__)}.{self.name}"


class Integrity:
    """Where everything was when this was made, before a submission runs; what it replaced since."""

    def __init__(self, noted: tuple[_Place, ...] | None = None) -> None:
        self._noted = tuple(_noted()) if noted is None else noted
        self._replaced: dict[str, None] = {}

    def of(self, exercise: Exercise) -> Integrity:
        """Return the same, with what an exercise asks besides."""
        return Integrity((*self._noted, *_places(exercise, vars(exercise))))

    def restore(self) -> None:
        """Put back what was replaced."""
        for place in [place for place in self._noted if place.changed]:
            self._replaced[place.told] = None
            place.restore()

    def told(self) -> dict[str, list[str]]:
        """Put back what was replaced; tell the names of all that ever was."""
        self.restore()
        return {"replaced": list(self._replaced)[:_MOST]} if self._replaced else {}


def _noted() -> Iterator[_Place]:
    modules = [sys.modules[name] for name in _OF_TORCH if name in sys.modules]
    ours = [m for name, m in sys.modules.items() if name.partition(".")[0] == _OURS]
    for module in (*_MODULES, *modules, *ours):
        yield from _places(module, vars(module))
    for owner in (*_CLASSES, socket.socket, *_classes(ours)):
        yield from _places(owner, vars(owner))


def _classes(modules: list[ModuleType]) -> Iterator[type]:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def _places(owner: Any, values: Mapping[str, Any]) -> Iterator[_Place]:
    for name, value in values.items():
        if isinstance(owner, Exercise) or callable(value) or isinstance(value, _WRAPPED):
            yield _Place(owner, name, value, _code(value))


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, _WRAPPED) else value


def _code(value: Any) -> Any:
    function = _function(value)
    return function.__code__ if isinstance(function, FunctionType) else None
