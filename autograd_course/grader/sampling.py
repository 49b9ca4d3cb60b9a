"""Draw random float64 inputs for exercises from a separate generator."""

from collections.abc import Callable

import torch
from torch import Tensor

from autograd_course.grader.exercise import Sampler

CLEARANCE = 0.05  # much larger than any finite-difference step


def generator() -> torch.Generator:
    """Return a generator for a check or a trial, with a seed from the global random state.

    The grader seeds this state before each check and each trial. The classroom grader's seed is
    secret, so an answer cannot know these random numbers in advance.
    """
    return torch.Generator().manual_seed(int(torch.randint(1 << 62, ())))


def normal(rng: torch.Generator, *shape: int) -> Tensor:
    """Return a tensor of this shape with random numbers from the standard normal distribution."""
    return torch.randn(shape, generator=rng, dtype=torch.float64, device="cpu")


def positive(rng: torch.Generator, *shape: int) -> Tensor:
    """Return a tensor of random numbers between 0.5 and 2."""
    return 0.5 + 1.5 * torch.rand(shape, generator=rng, dtype=torch.float64, device="cpu")


def around(rng: torch.Generator, kinks: tuple[float, ...], *shape: int) -> Tensor:
    """Return random numbers on both sides of the ``kinks``, at least ``CLEARANCE`` away from them.

    The elements cycle through the intervals between the kinks. A tensor with more elements than
    kinks therefore has elements on both sides of every kink.
    """
    edges = (kinks[0] - 1.5, *kinks, kinks[-1] + 1.5)
    low, high = torch.tensor(edges[:-1]), torch.tensor(edges[1:])
    side = torch.arange(torch.Size(shape).numel()) % len(low)
    low, high = low[side] + CLEARANCE, high[side] - CLEARANCE
    position = torch.rand(len(side), generator=rng, dtype=torch.float64, device="cpu")
    return (low + position * (high - low)).to(torch.float64).reshape(shape)


def with_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return a random matrix with positive and negative numbers, and a zero in each row."""
    x = normal(rng, 2, 4)
    x[:, 1] = 0
    return (x,)


def shaped(draw: Callable[..., Tensor], *, count: int = 1) -> dict[str, Sampler]:
    """Return samplers that draw ``count`` tensors of one shape. Each sampler has its own shape."""
    shapes = {
        "a 3×5 matrix": (3, 5),
        "a vector": (5,),
        "three dims, one of size 1": (2, 1, 3),
        "a single number (0-dim)": (),
    }

    def sampler(shape: tuple[int, ...]) -> Sampler:
        return lambda rng: tuple(draw(rng, *shape) for _ in range(count))

    return {name: sampler(shape) for name, shape in shapes.items()}
