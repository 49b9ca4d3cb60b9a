"""A soft time limit: an exception interrupts Python code that runs too long.

The limit applies to the computing time of the process. On a busy machine, wall-clock time would
blame code that hardly ran. Wall-clock time limits only code that waits.
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

# .limited: this thread is already inside a limit; .listening: the signal handler is set.
_running = threading.local()
_AGAIN = 1.0  # seconds until code that swallowed the exception is interrupted again
_SOON = 0.005  # seconds to wait if Python would swallow the exception now
_PATIENCE = 4.0  # multiple of the limit, in wall-clock time, for code that waits
_NEARLY = 0.8  # share of the limit that counts as the whole, because other programs take some time


class TimeUp(BaseException):
    """The time limit was reached.

    This is not an ``Exception``, so ``except Exception`` does not catch it.
    """


@contextmanager
def time_limit(seconds: float, patience: float = _PATIENCE) -> Iterator[bool]:
    """Raise :class:`TimeUp` in a block after a certain computing time.

    In the main thread, a timer signal interrupts the block. In other threads and on Windows, a
    watchdog thread interrupts it. In both cases, only Python code is interrupted, so a long call
    into compiled code ends first. An existing signal handler and timer are restored. Inside another
    limit, this one has no effect, because the outer one applies.

    Args:
        seconds: The limit; 0 means no limit.
        patience: The limit on the wall-clock time, as a multiple of ``seconds``.

    Yields:
        Whether this limit is the one in force.
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
    """Make the limits in the block cheap by setting the signal handler only once."""
    if _has_signal():
        with _listening():
            yield
    else:
        yield


@contextmanager
def untimed() -> Iterator[None]:
    """Exclude a block from the limit around it, because an interrupted import leaves a broken
    module.
    """
    if getattr(_running, "limited", False):
        with _running.stopwatch.stopped():
            yield
    else:
        yield


@contextmanager
def _listening() -> Iterator[None]:
    """Set the signal handler unless it is already set.

    Afterwards, restore the old handler and timer.
    """
    if getattr(_running, "listening", False):
        yield
        return
    handler = signal.signal(signal.SIGALRM, _interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    _running.listening = True
    try:
        yield
    finally:  # even if the signal arrived while leaving the block
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
    """Whether Python would only print an exception raised now, as in a finalizer."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename == weakref.__file__:
            return True
        frame = frame.f_back
    return False


class _Stopwatch:
    """Computing time and wall-clock time in seconds, since this object was created."""

    def __init__(self, limit: float, patience: float) -> None:
        self.limit, self._patience = limit, patience
        self._stopped = False
        self._waiting, self._computing = time.monotonic(), time.process_time()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Do not count the time in the block, and do not interrupt it."""
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
    """Cancel an exception that was already sent to this thread and would appear after the block.

    To cancel it, we send another exception, which arrives at once, and catch it. If we sent NULL
    instead, a flag would stay set in CPython 3.11, and traced code (for example under coverage)
    would hang.
    """
    with suppress(TimeUp):
        _raise_in(thread)
        while True:
            pass
