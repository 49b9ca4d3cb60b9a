"""Detect and undo a submission's changes to functions in Python, PyTorch and our packages.

The worker records the original functions before the cells run. If a submission replaces a function,
the worker restores the original, so that the submission cannot forge the child's messages by
rebinding a name. The worker reports the replacement but continues, because there may be a harmless
reason. Hostile code can do more than rebind names, but only in its own process: see
``autograd_classroom.judge``.
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
from torch._compile import _disable_dynamo
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction

_COURSE = "autograd_course"
# Plain questions use only the modules outside of _FAR and the modules in _NEAR.
_FAR = ("torch.", "autograd_doctor.", f"{_COURSE}.")
_NEAR = (f"{_COURSE}.engine.", f"{_COURSE}.execution.", f"{_COURSE}.submitted.")
_WRAPPED = (staticmethod, classmethod)
_NOTHING = object()
# Keep Python's originals, because a submission may rebind the names.
_all, _map, _vars, _code_of = all, map, vars, attrgetter("__code__")
_is_a = isinstance
# When an answer imports torch._dynamo, this module wraps torch.manual_seed with this code.
_BY_DYNAMO = _disable_dynamo(abs).__code__


@dataclass(frozen=True)
class Place:
    """An attribute with its name, its original value, and the code object of this value.

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
        if self.name == "manual_seed" and _code(now) is _BY_DYNAMO:
            return ""
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
        """Return whether any attribute has changed.

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


_OURS = ("autograd_classroom", "autograd_course", "autograd_doctor")
_MOST = 10  # maximum number of reported names
_MODULES = (builtins, inspect, json, linecache, signal, struct, traceback, safetensors.torch)
_OF_TORCH = (
    "torch", "torch._tensor", "torch.autograd", "torch.autograd.forward_ad",
    "torch.autograd.function", "torch.autograd.functional", "torch.autograd.gradcheck",
    "torch.autograd.graph", "torch.func", "torch.functional", "torch.library", "torch.linalg",
    "torch.nn.functional", "torch.random", "torch.testing", "torch.utils._pytree",
)  # fmt: skip
# nn.Module is not included, because the compiler wraps its constructor on first use.
_CLASSES = (
    torch.Tensor, torch._C.TensorBase, *Function.__mro__[:-1], *inspect.getmro(type(Function))[:-2],
    *BackwardCFunction.__mro__[:-1],
)  # fmt: skip
_DEVICE = torch.device("cpu")


class TamperCheck:
    """The original functions, and the names of the functions that the submission has replaced."""

    def __init__(self, noted: tuple[Owner, ...] | None = None) -> None:
        self._noted = tuple(_noted()) if noted is None else noted
        self._near = tuple(owner for owner in self._noted if owner.is_near)
        self._replaced: dict[str, None] = {}

    def watch(self, answer: type[Function]) -> None:
        """Also restore ``apply`` of an answer, so that its ``backward`` runs."""
        usual = {*inspect.getmro(Function), *inspect.getmro(type(Function))}
        classes = (*inspect.getmro(answer), *inspect.getmro(type(answer)))
        own = [each for each in classes if each not in usual]
        owners = tuple(Owner(each, [Place("apply", _NOTHING, None)]) for each in own)
        self._noted, self._near = (*owners, *self._noted), (*owners, *self._near)

    def restore(self, *, near: bool = False) -> None:
        """Restore the original functions, starting with Python's own.

        If ``near`` is true, restore only the modules that plain questions use. This takes a tenth
        of the time.
        """
        if torch.get_default_dtype() != torch.float32:  # harmless, and common before gradcheck
            torch.set_default_dtype(torch.float32)
        for owner in self._near if near else self._noted:
            if owner.changed():
                self._replaced.update(dict.fromkeys(owner.restored()))
        if torch.get_default_device() != _DEVICE:
            torch.set_default_device(None)
            self._replaced["the default device"] = None

    def told(self, *, near: bool = False) -> dict[str, list[str]]:
        """Restore the original functions. Return the names of all functions replaced so far."""
        self.restore(near=near)
        return {"replaced": list(self._replaced)[:_MOST]} if self._replaced else {}


def _noted() -> Iterator[Owner]:
    modules = [sys.modules[name] for name in _OF_TORCH if name in sys.modules]
    ours = [m for name, m in sys.modules.items() if name.partition(".")[0] in _OURS]
    for module in dict.fromkeys((*_MODULES, *modules, *ours)):
        yield Owner(module, places(module))
    for owner in _CLASSES:
        yield Owner(owner, inherited(owner))
    for owner in dict.fromkeys((*_CLASSES, socket.socket, *_classes(ours))):
        yield Owner(owner, places(owner))


def _classes(modules: list[ModuleType]) -> Iterator[type]:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value
