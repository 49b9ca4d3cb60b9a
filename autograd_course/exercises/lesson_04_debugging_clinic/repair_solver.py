"""Repair: only the first loss trains

1. Compute the same gradient twice, with retain_graph=True. What has the first backward changed on
   ctx?
2. backward may read ctx, but must not change it. Go through the steps in reverse order without
   removing any.
3. Store ctx.steps = steps. In backward: for h, state in zip(reversed(ctx.steps),
   reversed(ctx.saved_tensors)), multiply grad_output by 1 - h * state.cos().
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def solve(x: Tensor, steps: tuple[float, ...]) -> Tensor:
    """Return the state after one step ``x - h sin x`` for each ``h``."""
    for h in steps:
        x = x - h * x.sin()
    return x


def states(x: Tensor, steps: tuple[float, ...]) -> list[Tensor]:
    """Return the state before each step, and the last state."""
    return [solve(x, steps[:count]) for count in range(len(steps) + 1)]


def after_each_step(x: Tensor, steps: tuple[float, ...], g: Tensor) -> Tensor:
    """Return a gradient that evaluates each slope at the state after its step."""
    for h, state in zip(steps, states(x, steps)[1:], strict=True):
        g = g * (1 - h * state.cos())
    return g


def in_opposite_order(x: Tensor, steps: tuple[float, ...], g: Tensor) -> Tensor:
    """Return a gradient that pairs the first step with the last state."""
    for h, state in zip(reversed(steps), states(x, steps), strict=False):
        g = g * (1 - h * state.cos())
    return g


def at_the_start(x: Tensor, steps: tuple[float, ...], g: Tensor) -> Tensor:
    """Return a gradient that evaluates each slope at the first state."""
    for h in steps:
        g = g * (1 - h * x.cos())
    return g


def at_the_end(x: Tensor, steps: tuple[float, ...], g: Tensor) -> Tensor:
    """Return a gradient that evaluates each slope at the state before the last step."""
    for h in steps:
        g = g * (1 - h * states(x, steps)[-2].cos())
    return g


EXERCISE = FunctionExercise(
    answer="Solve",
    points=1,
    difficulty="medium",
    minutes=10,
    optional=True,
    section="What gradcheck does not ask",
    constraints="backward may run any number of times",
    reference=solve,
    samplers={
        "3 steps on a 2×3 matrix": lambda rng: (normal(rng, 2, 3), (0.1, 0.2, 0.05)),
        "one step on a vector": lambda rng: (normal(rng, 4), (0.3,)),
        "no step": lambda rng: (normal(rng, 1, 5), ()),
        "a single number (0-dim)": lambda rng: (normal(rng), (0.1, 0.1)),
    },
    double_backward=False,
    asked=("not-reentrant",),
    gradient_suspects={
        "Each slope is taken at the first state. Every step has a state of its own.": returning(
            solve, at_the_start
        ),
        "Each slope is taken at the state before the last step. Every step has a state of its "
        "own.": returning(solve, at_the_end),
        "Each slope is taken at the state after its step. `forward` takes the sine of the state "
        "before the step.": returning(solve, after_each_step),
        "The steps and the states run in opposite orders, so each h meets the state of another "
        "step. Reverse both, or none.": returning(solve, in_opposite_order),
    },
    checks=CONDUCT,
    modeled_on="DGL #1046: backward cleared a cache on ctx, and failed with retain_graph=True",
)
