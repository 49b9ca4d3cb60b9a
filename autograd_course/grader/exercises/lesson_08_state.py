"""Lesson 08's patients with a memory: what they keep, use up, hold fixed or draw again."""

import torch
from torch import Tensor

from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.exercises.lesson_08_bounds import leaves_the_generator, needs_no_output
from autograd_course.grader.exercises.lesson_08_repair import CHECKS, repair
from autograd_course.grader.sampling import normal, shaped


def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``."""
    return x / (1 + x.abs())


def solve(x: Tensor, steps: tuple[float, ...]) -> Tensor:
    """Return the state after steps ``x - h sin x``, of these sizes."""
    for h in steps:
        x = x - h * x.sin()
    return x


def rms_norm(x: Tensor) -> Tensor:
    """Return ``x / √(mean(x²) + 1e-6)`` along the last axis."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def next_draws(x: Tensor, p: float, seed: int) -> Tensor:
    """Return the same values, with a gradient of the draws that come after forward's."""
    generator = torch.Generator(x.device).manual_seed(seed)
    torch.rand(x.shape, generator=generator, device=x.device)
    again = torch.rand(x.shape, generator=generator, device=x.device) >= p
    passed = x * again / (1 - p)
    return dropout(x.detach(), p, seed) + passed - passed.detach()


def dropout(x: Tensor, p: float, seed: int) -> Tensor:
    """Return x / (1 - p) where the seed's draws keep it, otherwise 0."""
    generator = torch.Generator(x.device).manual_seed(seed)
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= p
    return x * kept / (1 - p)


REPAIRS: tuple[FunctionExercise, ...] = (
    repair(
        id="repair-softsign",
        title="Repair: memory that grows",
        reference=softsign,
        samplers=shaped(normal),
        asked=("tensor-on-ctx", "ctx-cycle"),
        checks=(*CHECKS, needs_no_output),
        seconds=20.0,  # to see a cycle the garbage collector has to run, several times
        bounds="the memory goes when the output does, without the garbage collector",
        hints=(
            "Who holds whom? The output holds its grad_fn, which is ctx, as long as somebody holds "
            "the output. And who holds the output?",
            "An output on ctx closes a circle: each end keeps the other alive. detach() and "
            "deleting it in backward cure one case each. PyTorch has a place for outputs that "
            "closes no circle.",
            "y = x / (1 + x.abs()); ctx.save_for_backward(y); return y. In backward "
            "(y,) = ctx.saved_tensors.",
        ),
        read='lesson 08, "A patient from PyTorch itself"',
        modeled_on="PyTorch #25340: an output as an attribute of ctx is never freed",
    ),
    repair(
        id="repair-solver",
        title="Repair: only the first loss trains",
        reference=solve,
        samplers={
            "3 steps on a 2×3 matrix": lambda rng: (normal(rng, 2, 3), (0.1, 0.2, 0.05)),
            "one step on a vector": lambda rng: (normal(rng, 4), (0.3,)),
            "no step": lambda rng: (normal(rng, 1, 5), ()),
            "a single number (0-dim)": lambda rng: (normal(rng), (0.1, 0.1)),
        },
        bounds="backward may run as often as somebody asks",
        double_backward=False,
        hints=(
            "Ask for the same gradient twice, with retain_graph=True. What did the first backward "
            "leave of ctx to the second?",
            "backward may read ctx, and must leave it as it was. Walk through the steps backward "
            "without taking anything away.",
            "Keep ctx.steps = steps. backward: for h, state in zip(reversed(ctx.steps), "
            "reversed(ctx.saved_tensors)).",
        ),
        read='lesson 08, "What gradcheck does not ask"',
        modeled_on="DGL #1046: a cache on ctx that backward cleared, and retain_graph=True",
    ),
    repair(
        id="repair-rms-norm",
        title="Repair: the penalty that misleads",
        points=2,
        reference=rms_norm,
        samplers={
            "3 rows of 4": lambda rng: (normal(rng, 3, 4),),
            "a vector": lambda rng: (normal(rng, 5),),
            "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
        },
        double_backward=True,
        hints=(
            "The training is right and the penalty is not: the penalty differentiates backward. "
            "Which of the numbers that backward reads are functions of x, and does autograd know?",
            "x is an input and has a graph. r was computed in forward, where nothing is recorded; "
            "saved, it is a constant. backward can compute it from x, where it is recorded.",
            "Save x alone. backward begins with r = (x.square().mean(-1, keepdim=True) + "
            "1e-6).rsqrt(), without detach or no_grad; the rest stays.",
        ),
        read='lesson 08, "Before it ships"',
        modeled_on="PyTorch #58509: intermediate results of a Function are dangerous for double "
        "backward",
    ),
    repair(
        id="repair-dropout",
        title="Repair: two masks",
        points=2,
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
        checks=(*CHECKS, leaves_the_generator),
        bounds="one mask for both passes, that of the seed",
        hints=(
            "Give it a vector of ones and a grad_output of ones: are the zeros of the gradient "
            "those of the output? Once they are, compare the other numbers as well.",
            "Either keep the mask (a byte an element), or draw it again from a generator that is "
            "where it was: one with the seed set anew. And then write down dy/dx of an element "
            "that is kept.",
            "ctx.seed = seed; in backward generator = torch.Generator(grad_output.device)."
            "manual_seed(ctx.seed), the same draw, and grad_output * kept / (1 - ctx.p).",
        ),
        read='lesson 08, "Freeze the noise"',
        modeled_on="guided-diffusion #167: a checkpoint that recomputes dropout with a mask of "
        "its own",
    ),
)
