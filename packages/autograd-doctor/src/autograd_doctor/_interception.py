"""Observe every call to ``Function.apply``, regardless of which code makes the call.

While a watcher is active, this module replaces the code object of ``Function.apply``, not the
attribute. An alias such as ``square = Square.apply`` refers to the function with this code object,
so watchers also see calls through older aliases. If ``apply`` is not written in Python, or is not
the expected function, the module replaces the attribute instead. In that case, watchers miss calls
through aliases that already exist.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType
from typing import Any, Protocol

from torch.autograd import Function

from autograd_doctor._when_imported import when_imported

Finish = Callable[[Any], None]


class Watcher(Protocol):
    """An observer of calls. Errors that it raises do not reach the code that makes the call."""

    def begin(
        self, function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Finish | None:
        """Observe a call before it runs.

        Return ``None``, or a callable that will receive the result.
        """

    def compiled(self, function: type[Function]) -> None:
        """Record that ``torch.compile`` traces a call, so ``apply`` does not run."""

    def failed(self, error: Exception) -> None:
        """Record that another method of this watcher raised an error."""


_watchers: tuple[Watcher, ...] = ()
_pauses = 0
_changing = threading.Lock()


@contextmanager
def paused() -> Iterator[None]:
    """Hide all calls inside the block from the watchers. The doctor uses this for its own calls."""
    global _pauses
    _pauses += 1
    try:
        yield
    finally:
        _pauses -= 1


def watch(watcher: Watcher) -> None:
    """Notify a watcher of every call from now on."""
    global _watchers
    with _changing:
        if not _watchers:
            _install()
        _watchers = (*_watchers, watcher)


def unwatch(watcher: Watcher) -> None:
    """Stop notifying a watcher. After the last watcher is removed, restore ``Function.apply``."""
    global _watchers
    with _changing:
        before = _watchers
        _watchers = tuple(it for it in before if it is not watcher)
        if before and not _watchers:
            _uninstall()


@contextmanager
def only(watcher: Watcher) -> Iterator[None]:
    """Inside the block, notify only this watcher, even if calls are hidden from the others."""
    global _watchers, _pauses
    watch(watcher)
    watchers, pauses = _watchers, _pauses
    _watchers, _pauses = (watcher,), 0
    try:
        yield
    finally:
        _watchers, _pauses = watchers, pauses
        unwatch(watcher)


def _forget_all() -> None:
    """Stop watching in a forked process, which could not report the calls that it sees."""
    global _watchers, _changing
    _changing = threading.Lock()
    if _watchers:
        _watchers = ()
        _uninstall()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# --------------------------------------------------------------------------------------------------
# The code that runs in place of Function.apply.
# --------------------------------------------------------------------------------------------------


def watched_apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the original ``apply``, and notify the watchers before and after it runs."""
    __tracebackhide__ = True  # pytest shows the user's frames and hides ours
    if _pauses or not _watchers:
        return _original(cls, *args, **kwargs)
    finishes: list[tuple[Watcher, Finish]] | None = None
    for watcher in _watchers:
        try:
            finish = watcher.begin(cls, args, kwargs)
        except Exception as error:
            _blame(watcher, error)
        else:
            if finish is not None:
                finishes = [*(finishes or ()), (watcher, finish)]
    returned = _original(cls, *args, **kwargs)
    if finishes is not None:
        _finish(finishes, returned)
    return returned


def _finish(finishes: list[tuple[Watcher, Finish]], returned: Any) -> None:
    for watcher, finish in finishes:
        try:
            finish(returned)
        except Exception as error:
            _blame(watcher, error)


# If a class has its own ``apply`` that calls this one, the compiler must not trace our code.
watched_apply._torchdynamo_disable = True  # type: ignore[attr-defined]


def _blame(watcher: Watcher, error: Exception) -> None:
    with suppress(Exception):
        watcher.failed(error)


_GLOBAL = "_autograd_doctor_watched_apply"  # in the module of Function, where the new code runs


def _replacement() -> CodeType:
    __class__ = None  # the free variable of the original code, which calls super()

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        __class__  # noqa: B018
        __tracebackhide__ = True
        return _autograd_doctor_watched_apply(cls, args, kwargs)  # type: ignore[name-defined]  # noqa: F821

    return apply.__code__


_NEW = _replacement()
# While nothing watches, all these are the same objects as after the import: the classroom reports
# code that replaces the attributes of a module.
_AT_REST: Callable[..., Any] = getattr(Function.apply, "__func__", Function.apply)
_original = _AT_REST
_attribute: Any = None  # the old entry in Function's namespace, if the attribute was replaced
_replaced: FunctionType | None = None  # the function whose code was replaced
_cancel: Callable[[], None] | None = None


def _install() -> None:
    global _original, _replaced, _cancel
    function = getattr(vars(Function).get("apply"), "__func__", None)
    if isinstance(function, FunctionType) and _fits(function.__code__):
        _original = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        function.__globals__[_GLOBAL] = watched_apply
        function.__code__ = _NEW
        _replaced = function
    else:
        _replace_attribute()
    _cancel = when_imported(_DYNAMO, _watch_compiling)


def _fits(code: CodeType) -> bool:
    return code.co_freevars == _NEW.co_freevars and code.co_argcount == _NEW.co_argcount


def _replace_attribute() -> None:
    global _original, _attribute
    held = _attribute = vars(Function).get("apply")

    def original(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
        above: Any = super(Function, cls)
        bound = above.apply if held is None else held.__get__(None, cls)
        return bound(*args, **kwargs)

    def apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return watched_apply(cls, args, kwargs)

    _original = original
    Function.apply = classmethod(apply)  # type: ignore[assignment, method-assign]


def _uninstall() -> None:
    global _original, _replaced, _cancel
    if _cancel is not None:
        _cancel()
        _cancel = None
    if _replaced is not None:
        _replaced.__code__ = _original.__code__
        _replaced = None
    elif _attribute is None:
        del Function.apply
    else:
        Function.apply = _attribute  # type: ignore[method-assign]
    _original = _AT_REST


# --------------------------------------------------------------------------------------------------
# Calls that torch.compile traces. The Function then runs in a compiled graph, not through apply.
# --------------------------------------------------------------------------------------------------

_DYNAMO = "torch._dynamo.variables.misc"


def _watch_compiling() -> None:
    variable: Any = getattr(sys.modules.get(_DYNAMO), "AutogradFunctionVariable", None)
    trace = getattr(variable, "call_apply", None)
    if trace is None or hasattr(trace, "_autograd_doctor"):
        return

    def call_apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        for watcher in () if _pauses else _watchers:
            try:
                watcher.compiled(self.fn_cls)
            except Exception as error:
                _blame(watcher, error)
        return trace(self, *args, **kwargs)

    call_apply._autograd_doctor = True  # type: ignore[attr-defined]
    variable.call_apply = call_apply
