"""Detect and undo a submission's changes to functions of Python, PyTorch and our packages.

The original functions are recorded before the cells run. If a submission replaces a function, the
original is restored, so that the submission cannot forge the child's messages by rebinding a name.
The replacement is only reported, because there may be a harmless reason for it. Hostile code can do
more than rebind names, but only in its own process: see ``autograd_classroom.judge``.
"""

from __future__ import annotations

import builtins
import inspect
import json
import linecache
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType

import safetensors.torch
import torch
from torch.autograd import Function

from autograd_classroom.worker.originals import Owner, inherited, places

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
_CLASSES = (torch.Tensor, torch._C.TensorBase, *Function.__mro__[:-1])
_DEVICE = torch.device("cpu")


class TamperCheck:
    """The original functions, and the names of those that the submission has replaced."""

    def __init__(self, noted: tuple[Owner, ...] | None = None) -> None:
        self._noted = tuple(_noted()) if noted is None else noted
        self._near = tuple(owner for owner in self._noted if owner.is_near)
        self._replaced: dict[str, None] = {}

    def restore(self, *, near: bool = False) -> None:
        """Restore the original functions, starting with Python's own.

        If ``near`` is true, restore only the modules that plain questions use. This takes a tenth
        of the time.
        """
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
