"""Repair: two masks

1. Pass a vector of ones to forward and ones to backward. Are the zeros of the gradient in the same
   places as the zeros of the output? Once they are, compare the other numbers as well.
2. Either save the mask (one byte for each element), or draw it again from a new generator with the
   same seed. Then write down dy/dx for an element that dropout keeps.
3. In forward: ctx.p, ctx.seed = p, seed. In backward: make a
   torch.Generator(grad_output.device).manual_seed(ctx.seed), draw the mask kept with it, and return
   grad_output * kept / (1 - ctx.p).
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Return ``x / (1 - p)`` where the mask drawn from the seed keeps ``x``, and 0 elsewhere."""
    kept = torch.rand(x.shape, generator=seeded(x, seed), device=x.device) >= p
    return x * kept / (1 - p)


def passing(generator_of: Callable[[Tensor, int], torch.Generator], *, scaled: bool) -> Any:
    """Return a dropout whose backward draws its mask from a different generator.

    If ``scaled`` is False, backward does not divide by ``1 - p``.
    """

    def backward(x: Tensor, p: float, seed: int, g: Tensor) -> Tensor:
        kept = torch.rand(x.shape, generator=generator_of(x, seed), device=x.device) >= p
        return g * kept / (1 - p if scaled else 1)

    return returning(dropout, backward)


def seeded(x: Tensor, seed: int) -> torch.Generator:
    """Return the generator that forward uses."""
    return torch.Generator(x.device).manual_seed(seed)


def after_forward(x: Tensor, seed: int) -> torch.Generator:
    """Return forward's generator in the state after forward has drawn the mask."""
    generator = seeded(x, seed)
    torch.rand(x.shape, generator=generator, device=x.device)
    return generator


def unseeded(x: Tensor, seed: int) -> torch.Generator:
    """Return a generator that ignores the seed."""
    return torch.Generator(x.device)


def leaves_the_generator(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that forward and backward leave PyTorch's global generator unchanged."""
    with torch.random.fork_rng(devices=[]):
        torch.rand(())  # change the state, because an earlier call may have set it
        before = torch.get_rng_state()
        _, outputs = applied(function, inputs)
        backward(outputs)
        if torch.equal(before, torch.get_rng_state()):
            return None
    return found(
        "rng-not-restored",
        "Both passes use the same mask, but the call changes PyTorch's global generator. The "
        "code that draws random numbers after it, such as the next layer, gets other numbers.",
        {},
        "torch.manual_seed sets this generator for the whole program. Make your own, "
        "torch.Generator(x.device).manual_seed(seed), and pass it to draw.",
    )


EXERCISE = FunctionExercise(
    answer="Dropout",
    points=2,
    difficulty="medium",
    minutes=10,
    optional=True,
    section="When forward draws random numbers",
    constraints="both passes use the mask of the seed",
    reference=dropout,
    samplers={
        "a 3×5 matrix": lambda rng: (normal(rng, 3, 5), 0.4, 1),
        "a vector": lambda rng: (normal(rng, 8), 0.25, 2),
        "three dims, one of length 1": lambda rng: (normal(rng, 2, 1, 6), 0.1, 3),
        "after a ReLU: some x are 0": lambda rng: (normal(rng, 12).relu(), 0.25, 4),
    },
    gradient_suspects={
        "This is the mask that the generator draws after the mask of forward. How do you bring "
        "a generator back to its first number?": passing(after_forward, scaled=True),
        "This is the mask that the generator draws after the mask of forward, and the division by "
        "1 - p is missing, too.": passing(after_forward, scaled=False),
        "The mask is right. forward also divides by 1 - p, so backward must do the same.": (
            passing(seeded, scaled=False)
        ),
        "The generator of backward never gets the seed, so it draws another mask. A new generator "
        "has a seed of its own.": passing(unseeded, scaled=True),
    },
    checks=(*CONDUCT, leaves_the_generator),
    modeled_on="guided-diffusion #167: a checkpoint recomputed dropout with a new mask",
)
