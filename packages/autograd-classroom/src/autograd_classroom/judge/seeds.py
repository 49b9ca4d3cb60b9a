"""Seeds for the judge: one secret seed per answer, and one derived seed per purpose.

The secret seed stays outside the sandbox. A derived seed reveals nothing about the secret seed or
about other derived seeds. Even if an answer infers a derived seed from its inputs, it cannot
predict later inputs or cotangents.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from autograd_classroom.protocol.wire import pack
from autograd_course.grader.exercise import Sampled

_BITS = 48  # NumPy and JSON accept a seed of this size, even if a caller adds a number to it


def derived(secret: int, *purpose: str) -> int:
    """Derive the seed for a purpose from the secret seed."""
    digest = hashlib.sha256("/".join((str(secret), *purpose)).encode()).digest()
    return int.from_bytes(digest, "big") % (1 << _BITS)


def about(secret: int, purpose: str, inputs: tuple[Any, ...]) -> int:
    """Derive a seed that depends on both the purpose and the inputs."""
    return derived(secret, purpose, hashlib.sha256(pack(inputs)).hexdigest())


def samples(exercise: Sampled, secret: int) -> dict[str, tuple[Any, ...]]:
    """Draw inputs from every sampler, each with its own seed."""
    return {
        name: draw(torch.Generator().manual_seed(of_sample(secret, name)))
        for name, draw in exercise.samplers.items()
    }


def of_sample(secret: int, name: str) -> int:
    """Derive the seed from which a sampler draws its inputs."""
    return derived(secret, "sample", name)
