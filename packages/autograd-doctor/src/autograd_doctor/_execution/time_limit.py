"""A soft time limit: Python code that runs too long is interrupted by an exception.

What counts is the time that the process computes: on a machine that is busy with something else,
the clock alone would blame code that hardly ran. Code that waits is interrupted by the clock.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# .limited: this thread is inside a limit already; .listening: it has the signal handler set.
_running = threading.local()
_AGAIN = 1.0  # seconds; code that swallowed the exception is interrupted once more
_SOON = 0.005  # seconds; when it comes at a moment at which Python would swallow it
_PATIENCE = 4.0  # times the limit, on the clock, for code that waits or hardly gets to run
_NEARLY = 0.8  # of the limit: some of the time goes to the rest of the machine even when it is idle


class TimeUp(BaseException):
    """The time limit was reached. ``except Exception`` lets it pass, as it is none."""


@contextmanager
def time_limit(seconds: float, patience: float = _PATIENCE) -> Iterator[bool]:
    """Raise :class:`TimeUp` in a block after a time of computing.

    In the main thread a timer signal interrupts it; elsewhere, and on Windows, a watchdog thread
    does. Either way only Python code is interrupted: one long call into compiled code ends first.
    A signal handler and timer that were set before are put back. Inside another limit this one is
    none: the outer one holds.

    Args:
        seconds: The limit; 0 is no limit.
        patience: How many times the limit may pass on the clock.

    Yields:
        Whether this limit is the one that holds.
    """
    if not seconds or getattr(_running, "limited", False):
        yield False
        return
    _running.limited = True
    try:
        with _interrupting(seconds, patience):
            yield True
    finally:
        _running.limited = False


@contextmanager
def _interrupting(seconds: float, patience: float) -> Iterator[None]:
    if _has_signal():
        with _by_signal(seconds, patience):
            yield
    else:
        with _by_watchdog(seconds, patience):
            yield


@contextmanager
def _by_signal(seconds: float, patience: float) -> Iterator[None]:
    with _listening():
        _running.stopwatch = _Stopwatch(seconds, patience)
        signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds, _AGAIN))
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
def untimed() -> Iterator[None]:
    """Leave a block out of the limit around it, if any: an import that is stopped is broken."""
    if getattr(_running, "limited", False):
        with _running.stopwatch.stopped():
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
    if not _running.stopwatch.is_up:
        return
    if _swallows(frame):
        signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
    else:
        raise TimeUp


def _swallows(frame: FrameType | None) -> bool:
    """Tell whether Python would print what is raised there, and go on, as in a finalizer."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False


class _Stopwatch:
    """Seconds of computing, and on the clock, since it was made."""

    def __init__(self, limit: float, patience: float) -> None:
        self.limit, self._patience = limit, patience
        self._stopped = False
        self._waiting, self._computing = time.monotonic(), time.process_time()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Count no time in the block, and let it not be up there."""
        self._stopped = True
        waiting, computing = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            self._waiting += time.monotonic() - waiting
            self._computing += time.process_time() - computing
            self._stopped = False

    @property
    def is_up(self) -> bool:
        computed = time.process_time() - self._computing
        waited = time.monotonic() - self._waiting
        enough = computed >= _NEARLY * self.limit or waited >= self._patience * self.limit
        return enough and not self._stopped


def _has_signal() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextmanager
def _by_watchdog(seconds: float, patience: float) -> Iterator[None]:
    thread, done, raised = threading.get_ident(), threading.Event(), threading.Event()
    stopwatch = _running.stopwatch = _Stopwatch(seconds, patience)

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            if stopwatch.is_up:
                raised.set()
                _raise_in(thread)
            wait = min(seconds, _AGAIN)

    watchdog = threading.Thread(target=watch, daemon=True)
    watchdog.start()
    try:
        yield
    finally:
        done.set()
        watchdog.join()
        if raised.is_set():
            _let_come(thread)


def _raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeUp))


def _let_come(thread: int) -> None:
    """Take back an exception that is under way to this thread, and would surface after the block.

    Another one takes its place, and comes at once. To set none instead leaves CPython 3.11 with the
    flag that one is there: code that is traced, as for coverage, then stands still.
    """
    with suppress(TimeUp):
        _raise_in(thread)
        while True:
            pass
