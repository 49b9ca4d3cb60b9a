"""Random numbers of the doctor's own, that repeat from run to run."""

from __future__ import annotations

import random
from enum import IntEnum

import numpy as np
import torch

# Callers draw their example after manual_seed(0): with that seed, our cotangents would be equal to
# their inputs, and x could not be told from grad_output.
_OWN = 0x5EED_C0DE
_APART = 7919


class Stream(IntEnum):
    """What random numbers are drawn for: each purpose has its own, independent of the others."""

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


def generator(seed: int, stream: Stream = Stream.COTANGENTS) -> torch.Generator:
    """Return a generator on the CPU; streams of one seed are independent of each other."""
    return torch.Generator().manual_seed(_OWN + seed + _APART * stream)


def reseed(seed: int) -> None:
    """Seed the generators that the user's code draws from: PyTorch's, Python's and NumPy's.

    Not ``torch.manual_seed``: that queues a call for every backend that is not initialized yet,
    with a stack trace each, and here it would be called hundreds of times.
    """
    torch.default_generator.manual_seed(_OWN + seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(_OWN + seed)
    random.seed(_OWN + seed)
    np.random.seed((_OWN + seed) % 2**32)
