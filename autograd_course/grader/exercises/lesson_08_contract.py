"""Lesson 08's patients who break the contract with the engine, or with their caller."""

import torch
from torch import Tensor

from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.exercises.lesson_08_repair import repair
from autograd_course.grader.sampling import normal, positive


def tempered(x: Tensor, temperature: Tensor) -> Tensor:
    """Return ``tanh(x / t)`` for a temperature of no axes."""
    return torch.tanh(x / temperature)


def film(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Return ``γ x + β``, a scale and a shift for each column."""
    return x * gamma + beta


def floor_log(x: Tensor, floor: float) -> Tensor:
    """Return ``log(max(x, floor))``."""
    return x.clamp(min=floor).log()


def leaky_floor_log(x: Tensor, floor: float) -> Tensor:
    """Return the same values, with a gradient of ``1 / floor`` below the floor."""
    return (x + (x.clamp(min=floor) - x).detach()).log()


def with_silence(rng: torch.Generator, floor: float, n: int) -> tuple[Tensor, float]:
    """Return numbers around a floor, every third of them exactly 0, and the floor."""
    x, floor = around_floor(rng, floor, n)
    return x.where(torch.arange(n) % 3 != 0, 0.0), floor


def around_floor(rng: torch.Generator, floor: float, *shape: int) -> tuple[Tensor, float]:
    """Return positive numbers that lie in turn below and above a floor, and the floor."""
    ratio = positive(rng, *shape)  # 0.5 to 2
    below = torch.arange(ratio.numel()).reshape(shape) % 2 == 0
    return floor * torch.where(below, 0.3 * ratio, 1 + ratio), floor


REPAIRS: tuple[FunctionExercise, ...] = (
    repair(
        id="repair-temperature",
        title="Repair: the temperature that stays",
        points=2,
        reference=tempered,
        samplers={
            "a 3×5 matrix": lambda rng: (normal(rng, 3, 5), positive(rng)),
            "a vector": lambda rng: (normal(rng, 4), positive(rng)),
            "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3), positive(rng)),
            "a single number (0-dim)": lambda rng: (normal(rng), positive(rng)),
        },
        bounds="the temperature is an argument, and its gradient has its shape",
        hints=(
            "The engine connects a node to the tensors that apply was given. Which tensors was it "
            "given here, and which did forward use?",
            "Pass the temperature to apply, as a second argument, and save it. Then derive "
            "∂y/∂t of tanh(x / t): an inner derivative once more. One number is used by all "
            "elements of x, so its gradient collects from all of them.",
            "s = g · (1 - y²). The gradient of x is s / t, that of t is -(s · x).sum() / t².",
        ),
        read='lesson 08, "Step 2: the contract"',
        modeled_on="torchdiffeq #104, where tensors that a solver's right-hand side had used "
        "without being handed them got no gradient",
    ),
    repair(
        id="repair-film",
        title="Repair: scale and shift on a frozen backbone",
        reference=film,
        samplers={
            "4 rows of 3": lambda rng: (normal(rng, 4, 3), normal(rng, 3), normal(rng, 3)),
            "one row": lambda rng: (normal(rng, 1, 5), normal(rng, 5), normal(rng, 5)),
            "rows of one number": lambda rng: (normal(rng, 6, 1), normal(rng, 1), normal(rng, 1)),
        },
        bounds="also while any of the three tensors is frozen",
        hints=(
            "Print what backward returns when x is frozen, beside forward's arguments. Who tells "
            "the engine which of the returned values belongs to which argument?",
            "The position does, and nothing else. A list that only grows by what is needed moves "
            "everything behind a gap one place forward.",
            "Start with grad_x = grad_gamma = grad_beta = None, fill in those that "
            "needs_input_grad asks for, and return all three in the order of the arguments.",
        ),
        read='lesson 08, "What gradcheck does not ask"',
        modeled_on="Liger-Kernel #930: a fused loss that was right as long as all of its inputs "
        "asked for a gradient",
    ),
    repair(
        id="repair-floor-log",
        title="Repair: the silence that was not silent",
        points=2,
        reference=floor_log,
        samplers={
            "a 3×4 matrix, floor 0.5": lambda rng: around_floor(rng, 0.5, 3, 4),
            "a vector, floor 1": lambda rng: around_floor(rng, 1.0, 5),
            "three axes, one of length 1": lambda rng: around_floor(rng, 0.1, 2, 1, 3),
            "digital silence: some x are 0": lambda rng: with_silence(rng, 0.2, 6),
        },
        gradient_suspects={
            "Below the floor y is log(floor), whatever x is: how much does y change there when x "
            "does? The number after the floor does not tell backward on which side x was.": (
                leaky_floor_log
            ),
        },
        bounds="x keeps its values, and what lies below the floor has the gradient 0, as x = 0 has",
        hints=(
            "Compare x before and after the call, number by number. Once that is mended, run "
            "diagnose again: a second bug has been waiting behind the first.",
            "x.data is the same memory as x. x.clamp(min=floor), without the underscore, makes a "
            "new tensor. For the second bug sketch y against x: what is the slope left of the "
            "floor? backward must know which elements lie there.",
            "Save x itself and keep ctx.floor. backward: torch.where(x >= ctx.floor, "
            "grad_output / x, 0).",
        ),
        read='lesson 08, "What gradcheck does not ask"',
        modeled_on="Liger-Kernel #272, whose kernel writes into its input behind the back of "
        "PyTorch's version counter",
    ),
)
