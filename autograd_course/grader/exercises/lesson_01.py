"""The exercises of lesson 01: six Functions to write, then five to repair."""

from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    gradient_at,
    no_tensor_on_ctx,
    saves_only_outputs,
)
from autograd_course.grader.exercise import FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_01_repairs import REPAIRS
from autograd_course.grader.sampling import around, normal, positive, shaped

LESSON = "01_template"
TITLE = "A Function from end to end"


def square(x: Tensor) -> Tensor:
    """Return ``x²``."""
    return x * x


def scaled_sigmoid(x: Tensor, gain: float, slope: float) -> Tensor:
    """Return ``gain · σ(slope · x)``."""
    return gain * torch.sigmoid(slope * x)


def weighted_sum(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Return ``w·x + (1 - w)·y``."""
    return w * x + (1 - w) * y


def clipped_relu(x: Tensor, ceiling: float) -> Tensor:
    """Return ``min(max(x, 0), ceiling)``, with gradient 1 at both bounds."""
    # Not clamp alone: at its bounds PyTorch 2.13 has the gradient 1, and 2.14 has 0.
    return torch.where((x < 0) | (x > ceiling), x.detach().clamp(0, ceiling), x)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x Wᵀ + b``."""
    return torch.nn.functional.linear(x, weight, bias)


def to_polar(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``r = √(x² + y²)`` and ``θ = atan2(y, x)``."""
    return torch.hypot(x, y), torch.atan2(y, x)


def off_axis(rng: torch.Generator, *shape: int) -> Tensor:
    """Return numbers of both signs between 0.5 and 2: no origin, no jump of the angle."""
    sign = 2 * torch.randint(2, shape, generator=rng, device="cpu") - 1
    return sign * positive(rng, *shape)


SIGMOID_INPUTS: Mapping[str, Sampler] = {
    "gain 2, slope 3": lambda rng: (normal(rng, 2, 3), 2.0, 3.0),
    "a negative gain": lambda rng: (normal(rng, 5), -1.5, 0.5),
    "a negative slope": lambda rng: (normal(rng, 2, 1, 3), 0.7, -2.0),
    "a single number (0-dim)": lambda rng: (normal(rng), 3.0, 1.0),
}

CLIP_INPUTS: Mapping[str, Sampler] = {
    "ceiling 1 and inputs on both sides of both bounds": lambda rng: (
        around(rng, (0.0, 1.0), 2, 4),
        1.0,
    ),
    "ceiling 6": lambda rng: (around(rng, (0.0, 6.0), 5), 6.0),
    "a single number (0-dim)": lambda rng: (around(rng, (0.0, 0.5)), 0.5),
    "three axes, one of length 1": lambda rng: (around(rng, (0.0, 2.5), 2, 1, 3), 2.5),
}

LINEAR_INPUTS: Mapping[str, Sampler] = {
    "a batch with bias": lambda rng: (normal(rng, 4, 3), normal(rng, 2, 3), normal(rng, 2)),
    "no bias given": lambda rng: (normal(rng, 4, 3), normal(rng, 2, 3)),
    "bias=None": lambda rng: (normal(rng, 1, 3), normal(rng, 2, 3), None),
    "two leading axes": lambda rng: (normal(rng, 2, 5, 3), normal(rng, 4, 3), normal(rng, 4)),
    "no leading axis": lambda rng: (normal(rng, 3), normal(rng, 2, 3), normal(rng, 2)),
}

WRITE: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="square",
        lesson=LESSON,
        title="Square",
        points=1,
        reference=square,
        samplers=shaped(normal),
        hints=(
            "Which number does the derivative of x² need that backward, called long after forward, "
            "no longer has? Forward must leave it somewhere.",
            "backward receives ∂L/∂y and returns ∂L/∂x. By the chain rule the second is the first "
            "times dy/dx, element by element; dy/dx is made from the x that forward saved.",
            "In forward: ctx.save_for_backward(x), then return the square. In backward: "
            "(x,) = ctx.saved_tensors – mind the comma – then return twice x times grad_output.",
        ),
        read='lesson 01, "What backward is asked for"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
        ),
    ),
    FunctionExercise(
        id="scaled-sigmoid",
        lesson=LESSON,
        title="Scaled sigmoid",
        points=2,
        reference=scaled_sigmoid,
        samplers=SIGMOID_INPUTS,
        hints=(
            "Differentiate σ first, without gain and slope. Its derivative can be written with x "
            "or without x: which form suits a backward that only has the output?",
            "σ' = σ(1 - σ), and σ itself is y / gain. Put that into the chain rule for "
            "gain · σ(slope · x): one factor comes from outside of σ, one from inside.",
            "∂y/∂x = slope · y · (1 - y / gain). Save y, keep the two numbers as ctx.gain and "
            "ctx.slope, multiply by grad_output, and return None for each of the two numbers.",
        ),
        read='lesson 01, "Save the output instead of the input"',
        checks=(backward_is_a_formula, no_tensor_on_ctx, saves_only_outputs),
        bounds="nothing but the output is kept for backward",
    ),
    FunctionExercise(
        id="weighted-sum",
        lesson=LESSON,
        title="Weighted sum",
        points=2,
        reference=weighted_sum,
        samplers=shaped(normal, count=3),
        hints=(
            "Three tensors go in, so three gradients come out. Take them one at a time: hold the "
            "other two inputs fixed, as if they were numbers.",
            "Multiply the formula out: w·x + y - w·y. How does it change when only w does? The "
            "variable w stands in two of the terms.",
            "∂z/∂x = w, ∂z/∂y = 1 - w, ∂z/∂w = x - y. Save all three inputs, multiply each "
            "derivative by grad_output, and return them in the order of forward's arguments.",
        ),
        read='lesson 01, "Several inputs, several outputs"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
        ),
    ),
    FunctionExercise(
        id="clipped-relu",
        lesson=LESSON,
        title="Clipped ReLU",
        points=2,
        reference=clipped_relu,
        samplers=CLIP_INPUTS,
        hints=(
            "Sketch y against x. The curve has three pieces; how steep is each of them? What is "
            "left is to say which piece the two corner points belong to.",
            "The local gradient is a mask: 1 where forward let x through, 0 where it clipped. At "
            "x = 0 and x = ceiling this exercise asks for 1, so the bounds belong to the middle.",
            "Save the mask (x >= 0) & (x <= ceiling) in forward; a boolean tensor may be saved "
            "like any other. backward returns grad_output times the mask, and None for ceiling.",
        ),
        read='lesson 01, "From the formula to the proof"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            gradient_at(clipped_relu, torch.tensor([0.0, 2.0, 1.0], dtype=torch.float64), 2.0),
        ),
        bounds="the gradient at exactly 0 and at exactly the ceiling is 1",
    ),
    FunctionExercise(
        id="linear",
        lesson=LESSON,
        title="Linear with optional bias",
        points=3,
        reference=linear,
        samplers=LINEAR_INPUTS,
        accepted=("zero-size",),  # reshape(-1, n) cannot tell the rows of a tensor of no elements
        hints=(
            "Write down the shapes of x, weight, bias and grad_output for a batch of 4, 3 inputs, "
            "2 outputs. Which product of grad_output with another one has the shape of weight?",
            "For a batch: grad_x = g W, grad_W = gᵀ x, and the bias was added to every row, so "
            "its gradient collects g from every row. More leading axes are just more rows: flatten "
            "them.",
            "rows = grad_output.reshape(-1, weight.shape[0]); flatten x to (-1, weight.shape[1]) "
            "likewise. Return grad_output @ weight, rows.t() @ flat_x, and rows.sum(0) – or None "
            "in its place when there was no bias, which forward can note as ctx.has_bias.",
        ),
        read='lesson 01, "A template with an optional argument"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
        ),
    ),
    FunctionExercise(
        id="to-polar",
        lesson=LESSON,
        title="To polar coordinates",
        points=3,
        reference=to_polar,
        samplers=shaped(off_axis, count=2),
        hints=(
            "backward now receives two upstream gradients, one for r and one for θ. x influences "
            "the loss along two paths: through r and through θ. What happens to contributions that "
            "arrive along different paths?",
            "They add up: grad_x = ∂r/∂x · grad_r + ∂θ/∂x · grad_theta, and the same for y. You "
            "need four partial derivatives; those of atan2(y, x) have r² below and y or x above, "
            "and one of them has a minus.",
            "∂r/∂x = x/r, ∂r/∂y = y/r, ∂θ/∂x = -y/r², ∂θ/∂y = x/r². Return "
            "x/r · grad_r - y/r² · grad_theta for x, and y/r · grad_r + x/r² · grad_theta for y.",
        ),
        read='lesson 01, "Several inputs, several outputs"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
        ),
    ),
)

EXERCISES: tuple[FunctionExercise, ...] = (*WRITE, *REPAIRS)
