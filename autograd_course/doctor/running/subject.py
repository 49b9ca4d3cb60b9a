"""What is examined: a Function subclass, or a callable built on some."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd import Function

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.running.calls import takes_ctx
from autograd_course.doctor.source import own_source
from autograd_course.doctor.world.held import Held
from autograd_course.doctor.world.surroundings import Surroundings


@dataclass(frozen=True)
class Subject:
    """The thing to call, its name, its argument names, and its class where it is a Function."""

    name: str
    call: Callable[..., Any]
    parameters: tuple[str, ...]
    function: type[Function] | None
    omitted: tuple[str, ...] = ()  # parameters of forward that the call leaves to their defaults
    passed: Mapping[int, Held] = field(default_factory=dict)  # that it reaches besides, by position
    around: Surroundings = field(default_factory=Surroundings)  # what it reaches besides arguments

    @property
    def instance_methods(self) -> tuple[str, ...]:
        """Those of ``forward``, ``backward``, ``setup_context`` that lack ``@staticmethod``."""
        if self.function is None:
            return ()
        return tuple(
            name
            for name in ("forward", "backward", "setup_context")
            if inspect.isfunction(inspect.getattr_static(self.function, name))
        )

    @property
    def backward_source(self) -> str:
        """The source of ``backward``, or ``""`` where Python does not know it."""
        if self.function is None:
            return ""
        known = own_source(self.function.backward)
        return "".join(known[0]) if known else ""


def subject_of(fn: Any, count: int) -> Subject:
    """Return the subject for ``fn`` with ``count`` arguments; ``DoctorError`` if it is neither."""
    if isinstance(fn, type) and issubclass(fn, Function):
        if fn.forward is Function.forward:
            raise DoctorError(
                f"{fn.__name__} has no forward yet: write it, then call diagnose again."
            )
        names = _parameters(fn.forward, int(takes_ctx(fn)), count)
        return Subject(fn.__name__, fn.apply, _numbered(names, count), fn, tuple(names[count:]))
    if isinstance(fn, type) or not callable(fn):
        raise DoctorError(
            f"diagnose needs a torch.autograd.Function subclass or a callable, got {_describe(fn)}."
        )
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Function) and fn.__name__ == "apply":
        return subject_of(owner, count)
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    name = getattr(fn, "__name__", type(fn).__name__)
    parameters = _numbered(_parameters(called, 0, count), count)
    return Subject("callable" if name == "<lambda>" else name, fn, parameters, None)


def _parameters(call: Callable[..., Any], skip: int, count: int) -> list[str]:
    """Return the names of a callable's positional parameters, as far as its signature tells.

    With ``count`` arguments, those that a ``*weights`` takes are weights[0], weights[1] …
    """
    try:
        parameters = list(inspect.signature(call).parameters.values())[skip:]
    except (TypeError, ValueError):
        return []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for rest in (p.name for p in parameters if p.kind is p.VAR_POSITIONAL):
        names += [f"{rest}[{i}]" for i in range(count - len(names))]
    return names


def _numbered(names: list[str], count: int) -> tuple[str, ...]:
    """Return ``count`` argument names, numbered where the signature does not tell."""
    return tuple(names[i] if i < len(names) else f"input{i}" for i in range(count))


def _describe(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}, which is not a Function"
    return (
        f"{type(thing).__name__} {thing!r}"
        if isinstance(thing, str | int)
        else type(thing).__name__
    )
