"""Leave the caller's world as it was."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch

from autograd_course.doctor.world.randomness import reseed

DEVICES = ("cpu", "cuda", "mps", "xpu")  # that may be under autocast


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Run a block as in a fresh process: grad mode on, no autocast, no inference mode, seeded.

    Restored afterwards are the random states of PyTorch (CPU and CUDA), Python and NumPy, the
    default dtype, those modes and the thread count. Warnings raised inside are not shown.
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
