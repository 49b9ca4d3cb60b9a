"""Leave the caller's world as it was."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def reseed(seed: int) -> None:
    """Seed the generators of PyTorch, Python and NumPy.

    Not ``torch.manual_seed``: that queues a call for every backend that is not initialized yet,
    with a stack trace each, and here it would be called hundreds of times.
    """
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Run a block with grad mode on and PyTorch seeded; restore everything afterwards.

    Restored are the random states of PyTorch (CPU and CUDA), Python and NumPy, the default dtype,
    the grad mode and the thread count. Warnings raised inside are not shown.
    """
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    python_state, numpy_state = random.getstate(), np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices), torch.enable_grad(), warnings.catch_warnings():
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
