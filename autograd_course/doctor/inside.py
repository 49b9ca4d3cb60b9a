"""The Functions inside a callable, each with the arguments of its first call.

A callable is judged by its outputs and gradients. What the engine mends on the way (a gradient of
the wrong shape, dtype or device) shows only at the Functions themselves.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.autograd import Function

from autograd_course.doctor.calls import attempt, is_float
from autograd_course.doctor.evidence import Failure
from autograd_course.doctor.held import Held
from autograd_course.doctor.passes import custom_nodes
from autograd_course.doctor.session import Run
from autograd_course.doctor.surroundings import Surroundings


@dataclass(frozen=True)
class InnerCall:
    """A Function with the arguments of a call; ``passed`` are those that it reaches besides."""

    function: type[Function]
    args: tuple[Any, ...]
    passed: Mapping[int, Held]


def functions_inside(run: Callable[[], Run], around: Surroundings) -> Iterator[InnerCall]:
    """Run a callable twice: find the Functions in its graph, then what their forward is given."""
    first = attempt(run)
    if isinstance(first, Failure):
        return
    classes = {node._forward_cls: None for node in custom_nodes(first.tensors)}
    calls: dict[int, InnerCall] = {}
    functions = _told_apart(classes)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        place = id(frame.f_code)
        if event == "call" and place in functions and place not in calls:
            function = functions[place]
            args = _arguments(frame)[_with_ctx(function) :]
            passed = around.passed(args)
            calls[place] = InnerCall(function, tuple(map(_copy, args)), passed)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        attempt(run)
    finally:
        sys.setprofile(before)
    yield from (calls[place] for place in functions if place in calls)


def _told_apart(functions: Iterable[type[Function]]) -> dict[int, type[Function]]:
    """Return each Function under its code's identity; what one factory made shares its code."""
    codes = [(_code(function), function) for function in functions]
    shared = Counter(id(code) for code, _ in codes)
    return {id(code): function for code, function in codes if code and shared[id(code)] == 1}


def _code(function: type[Function]) -> CodeType | None:
    return getattr(inspect.unwrap(function.forward), "__code__", None)


def _with_ctx(function: type[Function]) -> int:
    """Return how many of forward's arguments are ctx: one in the old style, none in the new."""
    return int(function.setup_context is Function.setup_context)


def _arguments(frame: FrameType) -> list[Any]:
    """Return the positional arguments that a function was called with."""
    code = frame.f_code
    names: Sequence[str] = code.co_varnames[: code.co_argcount]
    values = [frame.f_locals[name] for name in names]
    if code.co_flags & inspect.CO_VARARGS:
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        values += frame.f_locals[rest]
    return values


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    asks = value.requires_grad and is_float(value)
    return value.detach().clone().requires_grad_(asks)
