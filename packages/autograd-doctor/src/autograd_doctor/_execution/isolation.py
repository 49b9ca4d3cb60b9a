"""Global state that a diagnosis must not change: random number generators, modes, and output."""

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
    """The purpose of a stream of random numbers.

    Streams with different purposes are independent.
    """

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
    """Return a CPU generator. Streams with the same seed are independent of each other."""
    return torch.Generator().manual_seed(_OWN + seed + _APART * stream)


def reseed(seed: int) -> None:
    """Seed the PyTorch, Python and NumPy generators that user code draws from.

    ``torch.manual_seed`` is too slow for hundreds of calls, because it queues a call, with a stack
    trace, for every uninitialized backend.
    """
    torch.default_generator.manual_seed(_OWN + seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(_OWN + seed)
    random.seed(_OWN + seed)
    np.random.seed((_OWN + seed) % 2**32)


def random_state() -> tuple[object, ...]:
    """Return the states of the CPU generators that user code draws from."""
    _, numbers, *rest = np.random.get_state(legacy=True)
    state = torch.default_generator.get_state().numpy().tobytes()
    return state, random.getstate(), np.asarray(numbers).tobytes(), *rest


# --------------------------------------------------------------------------------------------------
# Restore the caller's global state.
# --------------------------------------------------------------------------------------------------

DEVICES = ("cpu", "cuda", "mps", "xpu")  # devices for which autocast may be on


@contextmanager
def preserve_global_state(seed: int) -> Iterator[None]:
    """Run a block as if in a fresh process: seeded, in grad mode, without autocast or inference
    mode.

    Afterwards, restore the random states of PyTorch (CPU and CUDA), Python and NumPy, the default
    dtype, the modes above and the number of threads. Hide warnings inside the block.

    Args:
        seed: The seed for the generators that user code draws from.

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
    """Run a block in one thread if its inputs are small and the code uses no other tensors.

    For small tensors, threads spend more time waiting than computing, especially on a busy machine.
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
# The output of the user's code, which would otherwise appear on every call.
# --------------------------------------------------------------------------------------------------

MOST = 2000  # characters to keep
LONG = 2.0  # seconds


class Bounded(io.TextIOBase):
    """A stream that keeps the first characters and counts the characters that follow."""

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
        """The kept text, followed by the number of omitted characters."""
        rest = f"\n… ({self._left_out:,} more characters)\n" if self._left_out else ""
        return self._kept + rest


class _Aside(Bounded):
    """A stream that captures output, up to a limit.

    A debugger and threads that already exist still print normally.
    """

    def __init__(self) -> None:
        super().__init__()
        self._out = sys.stdout
        here = threading.get_ident()
        self._others = {thread.ident for thread in threading.enumerate()} - {here}

    def write(self, text: str) -> int:
        """Keep the characters that fit. Output from other threads goes to the original stream."""
        if threading.get_ident() in self._others or _debugging():
            return self._out.write(text)
        return super().write(text)

    def flush(self) -> None:
        """Flush the original stream."""
        self._out.flush()


@contextmanager
def show_output_once(pass_once: Callable[[], object]) -> Iterator[None]:
    """Hide the output of a block that calls user code many times.

    Then call ``pass_once`` and show its output.

    If the block prints nothing, do not call ``pass_once``. If the block raises an error after a
    long time, a call to ``pass_once`` might never return. In this case, show the beginning of the
    block's own output.
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
    """Whether a debugger is currently printing. Its prompt must stay visible."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        if caller.f_globals.get("__name__") == "bdb":
            return True
        frame = caller
    return False
