"""Global state that a diagnosis must not change: random generators, modes, and output."""

from __future__ import annotations

import io
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from enum import IntEnum
from typing import Any

import numpy as np
import torch

# --------------------------------------------------------------------------------------------------
# The doctor's own random numbers. They are the same in every run.
# --------------------------------------------------------------------------------------------------

# Callers often draw their example after manual_seed(0). If we used the same seed, our cotangents
# would equal the inputs, and we would not notice a Function that uses x instead of grad_output.
_OWN = 0x5EED_C0DE
_APART = 7919


class Stream(IntEnum):
    """The purpose of random numbers. Numbers for different purposes are independent."""

    COTANGENTS = 0
    DIRECTIONS = 1
    SAMPLES = 2
    VARIATIONS = 3
    CAPTURED = 4
    LONGER_BATCH = 5
    ELSEWHERE = 6
    SHORT_COTANGENTS = 8
    SHORT_INPUTS = 9
    ASIDE = 10
    AUTOCAST = 11
    HALVES = 12
    TANGENTS = 21
    SLICES = 22
    STAIRS = 23
    RESIZED = 24
    STRUCTURES = 25
    LINES = 26
    FAR = 27
    SINGULAR = 28


def generator(seed: int, stream: Stream = Stream.COTANGENTS) -> torch.Generator:
    """Return a CPU generator. The streams of one seed are independent of each other."""
    return torch.Generator().manual_seed(_OWN + seed + _APART * stream)


def reseed(seed: int) -> None:
    """Seed the generators that the user's code draws from: PyTorch's, Python's and NumPy's.

    ``torch.manual_seed`` is too slow for hundreds of calls, because it queues a call with a stack
    trace for every backend that is not initialized yet.
    """
    torch.default_generator.manual_seed(_OWN + seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(_OWN + seed)
    random.seed(_OWN + seed)
    np.random.seed((_OWN + seed) % 2**32)


def random_state() -> tuple[object, ...]:
    """Return the states of the CPU generators that the user's code draws from."""
    _, numbers, *rest = np.random.get_state(legacy=True)
    state = torch.default_generator.get_state().numpy().tobytes()
    return state, random.getstate(), np.asarray(numbers).tobytes(), *rest


# --------------------------------------------------------------------------------------------------
# Restore the caller's global state.
# --------------------------------------------------------------------------------------------------

DEVICES = ("cpu", "cuda", "mps", "xpu")  # devices for which autocast may be on


@contextmanager
def preserve_global_state(seed: int) -> Iterator[None]:
    """Run a block as in a fresh process: grad mode on, no autocast, no inference mode, seeded.

    Afterwards, restore the random states of PyTorch (CPU and CUDA), Python and NumPy, the default
    dtype, these modes and the thread count. Warnings inside the block are not shown.

    Args:
        seed: The seed of the generators that user code draws from.

    Yields:
        Nothing.
    """
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    python_state, numpy_state = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _plain_modes(), torch.random.fork_rng(devices), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reseed(seed)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            random.setstate(python_state)
            np.random.set_state(numpy_state)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)


FEW_ELEMENTS = 10_000


@contextmanager
def one_thread_if_small(inputs: Sequence[Any], *, all_known: bool) -> Iterator[None]:
    """Run a block in one thread if its tensors are small and no other tensors are involved.

    With small tensors, threads spend more time waiting than computing, especially on a busy
    machine.
    """
    threads = torch.get_num_threads()
    elements = sum(it.numel() for it in inputs if isinstance(it, torch.Tensor))
    if not all_known or elements > FEW_ELEMENTS or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _plain_modes() -> Iterator[None]:
    """Leave inference mode and autocast, and turn grad mode on."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        for device in DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(torch.enable_grad())
        yield


# --------------------------------------------------------------------------------------------------
# Output of the examined user code. Without this code, the output would appear for every call.
# --------------------------------------------------------------------------------------------------

MOST = 2000  # characters to keep
LONG = 2.0  # seconds


class Bounded(io.TextIOBase):
    """A stream that keeps the first characters and counts the rest."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._kept, self._left_out = most, "", 0

    def writable(self) -> bool:
        """Return true, because the stream is writable."""
        return True

    def write(self, text: str) -> int:
        """Keep the characters that fit."""
        room = self._most - len(self._kept)
        self._kept += text[:room]
        self._left_out += len(text[room:])
        return len(text)

    @property
    def text(self) -> str:
        """The kept text, with a note on the number of omitted characters."""
        rest = f"\n… ({self._left_out:,} more characters)\n" if self._left_out else ""
        return self._kept + rest


class _Aside(Bounded):
    """A limited stream for one thread. A debugger and other threads still print normally."""

    def __init__(self) -> None:
        super().__init__()
        self._out = sys.stdout
        here = threading.get_ident()
        self._others = {thread.ident for thread in threading.enumerate()} - {here}

    def write(self, text: str) -> int:
        """Keep the characters that fit. Forward the output of all other code."""
        if threading.get_ident() in self._others or _debugging():
            return self._out.write(text)
        return super().write(text)

    def flush(self) -> None:
        """Flush the forwarded output."""
        self._out.flush()


@contextmanager
def show_output_once(pass_once: Callable[[], object]) -> Iterator[None]:
    """Run a block that calls user code many times, and show what one call to ``pass_once`` prints.

    If the block prints nothing, ``pass_once`` is not called. If the block raises after a long time,
    another call might never end. In this case, the beginning of the block's own output is shown
    instead.
    """
    aside, began = _Aside(), time.monotonic()
    slow = False
    try:
        with redirect_stdout(aside):
            yield
    except BaseException:
        slow = time.monotonic() - began > LONG
        raise
    finally:
        shown: Bounded = aside
        if aside.text and not slow:
            shown = Bounded()
            with redirect_stdout(shown):
                pass_once()
        sys.stdout.write(shown.text)


def _debugging() -> bool:
    """Whether a debugger is printing. If it is, its prompt must stay visible."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        if caller.f_globals.get("__name__") == "bdb":
            return True
        frame = caller
    return False
