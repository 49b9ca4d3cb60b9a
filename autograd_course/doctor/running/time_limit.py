"""A soft time limit: Python code that runs too long is interrupted by an exception."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DEFAULT_SECONDS = 5.0
VARIABLE = "AUTOGRAD_COURSE_TIME_LIMIT"
# .limited: this thread is inside a limit already; .listening: it has the signal handler set.
_running = threading.local()
_AGAIN = 1.0  # seconds; code that swallowed the exception is interrupted once more


class TimeUp(BaseException):
    """The time limit was reached. ``except Exception`` lets it pass, as it is none."""


def limit_in_seconds() -> float:
    """Return the limit: ``AUTOGRAD_COURSE_TIME_LIMIT`` in seconds, 5 by default, 0 for none."""
    try:
        return max(0.0, float(os.environ.get(VARIABLE, DEFAULT_SECONDS)))
    except ValueError:
        return DEFAULT_SECONDS


@contextmanager
def time_limit(seconds: float) -> Iterator[bool]:
    """Raise :class:`TimeUp` in the block after ``seconds``; 0 is no limit.

    In the main thread a timer signal interrupts it; elsewhere, and on Windows, a watchdog thread
    does. Either way only Python code is interrupted: one long call into compiled code ends first.
    A signal handler and timer that were set before are put back. Inside another limit this one is
    none: the outer one holds, and ``False`` is what the block gets.
    """
    if not seconds or getattr(_running, "limited", False):
        yield False
        return
    _running.limited = True
    try:
        with _interrupting(seconds):
            yield True
    finally:
        _running.limited = False


@contextmanager
def _interrupting(seconds: float) -> Iterator[None]:
    if _has_signal():
        with _by_signal(seconds):
            yield
    else:
        with _by_watchdog(seconds):
            yield


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    with _listening():
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def many_limits() -> Iterator[None]:
    """Make the limits in the block cheap: the signal handler is set once for all of them."""
    if _has_signal():
        with _listening():
            yield
    else:
        yield


@contextmanager
def _listening() -> Iterator[None]:
    """Set the signal handler, unless it is set; put back what was there, with its timer."""
    if getattr(_running, "listening", False):
        yield
        return
    handler = signal.signal(signal.SIGALRM, _interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    _running.listening = True
    try:
        yield
    finally:  # also where the signal came in the very moment of leaving the block
        _running.listening = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TimeUp


def _has_signal() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextmanager
def _by_watchdog(seconds: float) -> Iterator[None]:
    thread, done = ctypes.c_ulong(threading.get_ident()), threading.Event()
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            raise_in(thread, ctypes.py_object(TimeUp))
            wait = _AGAIN

    watchdog = threading.Thread(target=watch, daemon=True)
    watchdog.start()
    try:
        yield
    finally:
        done.set()
        watchdog.join()
        raise_in(thread, None)  # one that is under way would surface after the block
