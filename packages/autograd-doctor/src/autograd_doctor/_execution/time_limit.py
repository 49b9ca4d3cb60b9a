"""A soft time limit: an exception interrupts Python code that runs too long.

The limit applies to the CPU time of the process. On a busy machine, a limit on wall-clock time
could interrupt code that has hardly run. A second, larger limit on wall-clock time interrupts code
that only waits.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

# .listening: whether the signal handler is set; .stopwatches: one for each limit in force
_running = threading.local()
_AGAIN = 1.0  # seconds until code that swallowed the exception is interrupted again
_SOON = 0.005  # seconds to wait if Python would swallow the exception now
_PATIENCE = 4.0  # multiple of the limit, in wall-clock time, for code that waits
_NEARLY = 0.8  # fraction of the limit that is enough, because other programs use some CPU time


class TimeUp(BaseException):
    """The time limit was reached.

    This class does not inherit from ``Exception``, so ``except Exception`` does not catch it.
    """


@contextmanager
def time_limit(seconds: float, patience: float = _PATIENCE) -> Iterator[bool]:
    """Raise :class:`TimeUp` inside the block when the block has used too much CPU time.

    In the main thread, a timer signal interrupts the block. In other threads and on Windows, a
    watchdog thread interrupts it. Both interrupt only Python code, so a long call into compiled
    code finishes first. Afterwards, restore the previous signal handler and timer. A limit inside
    another limit applies only if it ends first.

    Args:
        seconds: The limit on CPU time; 0 means no limit.
        patience: The limit on wall-clock time, as a multiple of ``seconds``.

    Yields:
        Whether this limit applies, rather than an outer limit.
    """
    outer = _stopwatches()
    if not seconds or (outer and outer[-1].left <= seconds):
        yield False
        return
    stopwatch = _Stopwatch(seconds, patience)
    _running.stopwatches = (*outer, stopwatch)
    interrupting = _by_signal if _has_signal() else _by_watchdog
    try:
        with interrupting(stopwatch):
            yield True
    finally:
        _running.stopwatches = outer


def in_time(seconds: float, act: Callable[[], T], otherwise: T) -> T:
    """Call ``act``, and return its result, or ``otherwise`` if the call uses too much CPU time.

    Outside the main thread, the call has no limit, because starting a watchdog takes too long.
    """
    if not _has_signal():
        return act()
    applies = False
    try:
        with time_limit(seconds) as applies:
            return act()
    except TimeUp:
        if not applies:
            raise
    return otherwise


def _stopwatches() -> tuple[_Stopwatch, ...]:
    """Return the stopwatches of all limits around the running code, innermost last."""
    return getattr(_running, "stopwatches", ())


@contextmanager
def _by_signal(stopwatch: _Stopwatch) -> Iterator[None]:
    with _listening():
        _set_timer(stopwatch.limit)
        try:
            yield
        finally:
            *outer, _ = _stopwatches()
            _set_timer(max(_SOON, outer[-1].left) if outer else 0.0)


def _set_timer(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds, min(seconds, _AGAIN))


@contextmanager
def many_limits() -> Iterator[None]:
    """Make the time limits inside the block cheaper by setting the signal handler only once."""
    if _has_signal():
        with _listening():
            yield
    else:
        yield


@contextmanager
def untimed() -> Iterator[None]:
    """Suspend all time limits during an import, because interrupting it would break the module."""
    with ExitStack() as stopped:
        for stopwatch in _stopwatches():
            stopped.enter_context(stopwatch.stopped())
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
    if not any(stopwatch.is_up for stopwatch in _stopwatches()):
        return
    if _swallows(frame):
        signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
    else:
        raise TimeUp


def _swallows(frame: FrameType | None) -> bool:
    """Whether Python would print an exception raised now instead of propagating it.

    This happens in finalizers and in weak-reference callbacks, including those of torch.compile.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename == weakref.__file__:
            return True
        if code.co_qualname.startswith("ExactWeakKeyDictionary."):
            return True
        frame = frame.f_back
    return False


class _Stopwatch:
    """CPU time and wall-clock time in seconds since this object was created."""

    def __init__(self, limit: float, patience: float) -> None:
        self.limit, self._patience = limit, patience
        self._stopped = False
        self._waiting, self._computing = time.monotonic(), time.process_time()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Exclude the block from the measured time, and do not interrupt the block."""
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
        enough = self._computed >= _NEARLY * self.limit or self._waited >= self._longest
        return enough and not self._stopped

    @property
    def left(self) -> float:
        """The shortest time in seconds in which the limit can be reached."""
        return min(self.limit - self._computed, self._longest - self._waited)

    @property
    def _longest(self) -> float:
        return self._patience * self.limit

    @property
    def _computed(self) -> float:
        return time.process_time() - self._computing

    @property
    def _waited(self) -> float:
        return time.monotonic() - self._waiting


def _has_signal() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and hasattr(signal, "setitimer")


@contextmanager
def _by_watchdog(stopwatch: _Stopwatch) -> Iterator[None]:
    thread, done, raised = threading.get_ident(), threading.Event(), threading.Event()
    seconds = stopwatch.limit

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
    """Cancel an exception that was already sent to this thread and would be raised after the block.

    To cancel the exception, we send a second one, which is raised immediately, and catch it.
    Sending NULL instead would leave a flag set in CPython 3.11, and traced code (for example under
    coverage) would hang.
    """
    with suppress(TimeUp):
        _raise_in(thread)
        while True:
            pass
