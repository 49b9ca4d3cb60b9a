"""A description of a hand-written operation: the plain expression it replaces, and mutants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Call = Callable[..., Any]

# Warnings that an expert would give even though the author may keep the code, with the reasons.
ONCE = {"once-differentiable-leak": "it is once differentiable, and says so"}
CHEAP = {"wasted-gradient": "a few element-wise operations, for a formula that reads at a glance"}


@dataclass(frozen=True)
class Mutant:
    """The operation with one realistic bug, and the rule that must name it first.

    The bug is a different ``backward`` or different ``methods`` of the operation's Function, or an
    entirely different ``fn``. The name of the different object describes the bug.
    """

    rule: str
    backward: Call | None = None
    methods: dict[str, Call] = field(default_factory=dict)
    fn: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """The bug in words."""
        bug = self.fn or next(iter(self._methods.values()))
        name: str = getattr(bug, "__name__", type(bug).__name__)
        return name.replace("_", " ")

    def of(self, function: Any) -> Any:
        """Return the mutant of an operation's Function."""
        return changed(function, **self._methods) if self.fn is None else self.fn

    @property
    def _methods(self) -> dict[str, Call]:
        return self.methods | ({"backward": self.backward} if self.backward else {})


@dataclass(frozen=True)
class Operation:
    """A correct Function, or a callable that uses correct Functions, as in production code.

    ``options`` holds the options that an honest author passes to ``diagnose``. ``allowed`` maps a
    rule that may warn to the reason why an expert would agree. ``inexact`` says why backward is not
    the derivative of forward. In this case, the operation declares a surrogate or an intention.
    """

    name: str
    fn: Any
    inputs: tuple[Any, ...]
    reference: Call
    mutants: tuple[Mutant, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    allowed: dict[str, str] = field(default_factory=dict)
    inexact: str = ""

    @property
    def call(self) -> Call:
        """The operation as a callable."""
        is_function = isinstance(self.fn, type) and issubclass(self.fn, Function)
        return self.fn.apply if is_function else self.fn


def changed(function: type[Function], **methods: Call) -> type[Function]:
    """Return the Function with some of its static methods replaced."""
    static = {name: staticmethod(method) for name, method in methods.items()}
    return type(function)(function.__name__, (function,), static)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a standard normal sample that does not depend on the order of the tests."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
