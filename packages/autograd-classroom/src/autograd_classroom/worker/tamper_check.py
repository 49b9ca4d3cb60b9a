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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from itertools import repeat as _endlessly
from operator import attrgetter
from operator import is_ as _is
from types import FunctionType, ModuleType
from typing import Any

import safetensors.torch
import torch
from torch._compile import _disable_dynamo
from torch.autograd import Function, Variable
from torch.autograd.function import BackwardCFunction

from autograd_course.calls import as_tuple

_COURSE = "autograd_course"
# Plain questions use only these modules and Python's.
_NEAR = (
    "autograd_classroom", f"{_COURSE}.engine", f"{_COURSE}.execution", f"{_COURSE}.submitted",
    "socket",
)  # fmt: skip
_WRAPPED = (staticmethod, classmethod)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, as of Python's own classes
_NOTHING = object()
# Keep Python's originals, because a submission may rebind the names.
_all, _map, _vars, _code_of = all, map, vars, attrgetter("__code__")
_is_a, _type = isinstance, type
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_after_backward: Any = Variable._execution_engine.queue_callback
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
        self._owner, self._places, self._kind = owner, tuple(places), type(owner)
        home = owner.__module__ if _is_a(owner, type) else owner.__name__
        self.is_near = owner in _MODULES or home.startswith(_NEAR)
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
        return (
            _type(self._owner) is not self._kind
            or not _all(_map(_is, now, self._values))
            or not _all(_map(_is, codes, self._codes))
        )

    def restored(self) -> Iterator[str]:
        """Restore the original attributes, and yield the names of the changed ones."""
        if type(self._owner) is not self._kind:
            yield from _set(self._owner, "__class__", self._kind)
        yield from filter(None, [place.restored(self._owner) for place in self._places])


class WholeClass(Owner):
    """The original attributes of a class, its base classes, and the names of its attributes.

    A submission can also override an attribute that the class only inherits.
    """

    def __init__(self, owner: type) -> None:
        super().__init__(owner, places(owner))
        self._bases, self._own = owner.__bases__, frozenset(vars(owner))

    def changed(self) -> bool:
        """Return whether an attribute or a base class has changed, or an attribute is new."""
        return (
            Owner.changed(self)
            or self._owner.__bases__ is not self._bases
            or _vars(self._owner).keys() != self._own
        )

    def restored(self) -> Iterator[str]:
        """Restore the class, and yield the names of the attributes that had changed."""
        yield from Owner.restored(self)
        if self._owner.__bases__ is not self._bases:
            yield from _set(self._owner, "__bases__", self._bases)
        for name in sorted(vars(self._owner).keys() - self._own):
            if _overrides(self._owner, name):
                yield Place(name, _NOTHING, None).restored(self._owner)
        self._own = frozenset(vars(self._owner))


def places(owner: Any) -> Iterator[Place]:
    """Yield the attributes of a module or a class that are callable or, as properties, computed."""
    for name, value in vars(owner).items():
        if _runs(value) and (owner, name) not in _LATER:
            yield Place(name, value, _code(value))


def _runs(value: Any) -> bool:
    """Return whether code runs when a caller uses the attribute."""
    return callable(value) or hasattr(type(value), "__get__")


def _overrides(owner: type, name: str) -> bool:
    """Return whether a new attribute hides an inherited one or is one of Python's methods."""
    inherited = any(name in vars(base) for base in owner.__mro__[1:])
    return inherited or (name.startswith("__") and _runs(vars(owner)[name]))


def _set(owner: Any, name: str, value: Any) -> Iterator[str]:
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        setattr(owner, name, value)
    yield _told(owner, name)


def _told(owner: Any, name: str) -> str:
    home = f"{owner.__module__}." if _is_a(owner, type) else ""
    return f"{home}{getattr(owner, '__qualname__', owner.__name__)}.{name}"


def _function(value: Any) -> Any:
    if _is_a(value, property):
        return value.fget
    return value.__func__ if _is_a(value, _WRAPPED) else value


def _code(value: Any) -> Any:
    function = _function(value)
    return function.__code__ if _is_a(function, FunctionType) else None


_OURS = ("autograd_classroom", "autograd_course", "autograd_doctor")
_MOST = 10  # maximum number of reported names
_MODULES = (builtins, inspect, json, linecache, signal, struct, traceback, safetensors.torch)
# Modules whose functions the worker or an experiment calls. An answer cannot reach torch._C.
_CALLED = (
    "contextlib", "copy", "functools", "torch", "torch._tensor", "torch.autograd",
    "torch.autograd.forward_ad", "torch.autograd.function", "torch.autograd.functional",
    "torch.autograd.gradcheck", "torch.autograd.graph", "torch.func", "torch.functional",
    "torch.library", "torch.linalg", "torch.nn.functional", "torch.overrides", "torch.random",
    "torch.testing", "torch.utils._python_dispatch", "torch.utils._pytree", "warnings", "weakref",
)  # fmt: skip
# Modules whose classes they use.
_USED = (
    "_weakrefset", "contextlib", "functools", "torch._library.custom_ops", "torch._ops",
    "torch.autograd.forward_ad", "torch.autograd.function", "torch.autograd.grad_mode",
    "torch.autograd.graph", "torch.nn.modules.module", "torch.overrides", "torch.storage",
    "torch.utils._contextlib", "torch.utils._python_dispatch", "torch.utils.hooks", "warnings",
    "weakref",
)  # fmt: skip
_CLASSES = (torch.Tensor, Function, BackwardCFunction, socket.socket)
_LATER = ((torch.nn.Module, "__init__"), (torch.nn.Module, "__setstate__"))  # by the compiler
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
        self._restore(self._near if near else self._noted)
        if torch.get_default_device() != _DEVICE:
            torch.set_default_device(None)
            self._replaced["the default device"] = None

    def _restore(self, owners: Iterable[Owner]) -> None:
        for owner in owners:
            if owner.changed():
                self._replaced.update(dict.fromkeys(owner.restored()))

    def guarded(self, routine: Any) -> Any:
        """Return a routine that also restores the original functions.

        It does so after each call, after each backward pass through its results, and after each
        call of a function or a module that it returns. A trial compares values with functions
        that the answer could replace until the trial is over.
        """
        if not isinstance(routine, FunctionType):
            return routine  # an operator, which PyTorch must recognize, or a result

        @wraps(routine)
        def call(*args: Any, **options: Any) -> Any:
            undo = self._undo_later()
            try:
                came = routine(*args, **options)
            finally:
                undo()
            for node in _nodes(came):
                node.register_prehook(lambda _: _after_backward(self._undo_later()))
            if isinstance(came, torch.nn.Module):
                self._guard_module(came)
            return self.guarded(came)

        return call

    def _guard_module(self, module: torch.nn.Module) -> None:
        began: list[Callable[[], None]] = []
        module.register_forward_pre_hook(lambda *_: began.append(self._undo_later()))
        module.register_forward_hook(lambda *_: began.pop()(), always_call=True)

    def _undo_later(self) -> Callable[[], None]:
        """Return a function that restores everything that will have changed since now.

        PyTorch and the trial themselves replace some functions for a while.
        """
        unchanged = [owner for owner in self._noted if not owner.changed()]
        return lambda: self._restore(unchanged)

    def told(self, *, near: bool = False) -> dict[str, list[str]]:
        """Restore the original functions. Return the names of all functions replaced so far."""
        self.restore(near=near)
        return {"replaced": list(self._replaced)[:_MOST]} if self._replaced else {}


def _nodes(came: Any) -> list[Any]:
    """Return the last nodes in the graphs of a routine's results."""
    plain = [out for out in as_tuple(came) if type(out) is torch.Tensor and not _is_wrapped(out)]
    return [out.grad_fn for out in plain if out.grad_fn is not None]


def _noted() -> Iterator[Owner]:
    ours = [name for name in sys.modules if name.partition(".")[0] in _OURS]
    for module in dict.fromkeys((*_MODULES, *_loaded(_CALLED), *_loaded(ours))):
        yield Owner(module, places(module))
    classes = (*_CLASSES, *_classes(_loaded((*_USED, *ours))))
    for owner in dict.fromkeys(base for each in classes for base in _related(each)):
        if not owner.__flags__ & _IMMUTABLE:
            yield WholeClass(owner)


def _loaded(names: Iterable[str]) -> list[ModuleType]:
    return [sys.modules[name] for name in names if name in sys.modules]


def _classes(modules: Iterable[ModuleType]) -> Iterator[type]:
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def _related(owner: type) -> Iterator[type]:
    """Yield the metaclass of a class and the class itself, each followed by its base classes."""
    yield from inspect.getmro(type(owner))
    yield from inspect.getmro(owner)
