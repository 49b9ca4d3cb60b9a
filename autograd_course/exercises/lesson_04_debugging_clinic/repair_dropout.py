"""Repair: two masks

1. Give it a vector of ones and a grad_output of ones: are the zeros of the gradient those of the
   output? Once they are, compare the other numbers as well.
2. Either keep the mask (a byte an element), or draw it again from a generator that is where it was:
   one with the seed set anew. And then write down dy/dx of an element that is kept.
3. ctx.seed = seed; in backward generator =
   torch.Generator(grad_output.device).manual_seed(ctx.seed), the same draw, and grad_output * kept
   / (1 - ctx.p).
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Return x / (1 - p) where the seed's draws keep it, otherwise 0."""
    generator = torch.Generator(x.device).manual_seed(seed)
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= p
    return x * kept / (1 - p)


def next_draws(x: Tensor, p: float, seed: int) -> Tensor:
    """Return the same values, with a gradient of the draws that come after forward's."""
    generator = torch.Generator(x.device).manual_seed(seed)
    torch.rand(x.shape, generator=generator, device=x.device)
    again = torch.rand(x.shape, generator=generator, device=x.device) >= p
    passed = x * again / (1 - p)
    return dropout(x.detach(), p, seed) + passed - passed.detach()


def leaves_the_generator(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that PyTorch's common generator is where it was, before forward and after backward."""
    with torch.random.fork_rng(devices=[]):
        torch.rand(())  # on from where an earlier call may have set it
        before = torch.get_rng_state()
        _, outputs = applied(function, inputs)
        backward(outputs)
        if torch.equal(before, torch.get_rng_state()):
            return None
    return found(
        "rng-not-restored",
        "One mask for both passes, but PyTorch's common generator is moved: whoever draws after "
        "this call, the next layer or a shuffle, draws other numbers than without it.",
        {},
        "torch.manual_seed sets that generator for the whole program. Seed one of your own, "
        "torch.Generator(x.device).manual_seed(seed), and give it to draw.",
    )


EXERCISE = FunctionExercise(
    answer="Dropout",
    points=2,
    difficulty="medium",
    minutes=10,
    section="When the gradient is an estimate",
    constraints="one mask for both passes, that of the seed",
    reference=dropout,
    samplers={
        "a 3×5 matrix": lambda rng: (normal(rng, 3, 5), 0.4, 1),
        "a vector": lambda rng: (normal(rng, 8), 0.25, 2),
        "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 6), 0.1, 3),
        "after a ReLU: some x are 0": lambda rng: (normal(rng, 12).relu(), 0.25, 4),
    },
    gradient_suspects={
        "These are the draws that come after forward's: a generator goes on where it stopped. "
        "How does one bring it back to where forward began?": next_draws,
    },
    checks=(*CONDUCT, leaves_the_generator),
    modeled_on="guided-diffusion #167: a checkpoint that recomputes dropout with a mask of its own",
)
