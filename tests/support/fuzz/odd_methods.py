"""Methods that odd Functions share. Some are right, and others raise or return anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Call = Callable[..., Any]


class TextlessError(Exception):
    """An exception that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException | type[BaseException]) -> Call:
    """Return a method that raises this error."""

    def method(ctx: Any, *args: Any) -> Any:
        raise error

    return method


def returning(value: Any) -> Call:
    """Return a method that ignores its arguments and returns this value."""
    return lambda ctx, *args: value


def tensor_of(args: tuple[Any, ...]) -> Tensor:
    """Double the first floating-point tensor among the arguments. Without any, return zeros."""
    found = [a for a in args if isinstance(a, Tensor) and a.is_floating_point()]
    return found[0] * 2 if found else torch.zeros(2)


def right(ctx: Any, *args: Any) -> Any:
    ctx.count = len(args)
    return tensor_of(args)


def right_back(ctx: Any, *gs: Any) -> Any:
    return (2 * gs[0], *[None] * (ctx.count - 1))


ERRORS: dict[str, Any] = {
    "RuntimeError": RuntimeError("wrong\n\nin <two> lines"),
    "no message": ValueError(),
    "huge message": ValueError("x" * 10**6),
    "stop": StopIteration(3),
    "exit": SystemExit(2),
    "generator exit": GeneratorExit(),
    "recursion": RecursionError("too deep"),
    "memory": MemoryError(),
    "assertion": AssertionError(),
    "os": OSError(2, "No such file", "x"),
    "key": KeyError(("a", 1)),
    "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "unprintable": TextlessError(),
    "group": ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
    "warning": UserWarning("a warning"),
    "surrogates": ValueError("\ud800\x00\x1b[31m"),
}


def endless(ctx: Any, *args: Any) -> Any:
    return endless(ctx, *args)
