"""Repair: only the first loss trains

1. Ask for the same gradient twice, with retain_graph=True. What did the first backward leave of ctx
   to the second?
2. backward may read ctx, and must leave it as it was. Walk through the steps backward without
   taking anything away.
3. Keep ctx.steps = steps. backward: for h, state in zip(reversed(ctx.steps),
   reversed(ctx.saved_tensors)).
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def solve(x: Tensor, steps: tuple[float, ...]) -> Tensor:
    """Return the state after steps ``x - h sin x``, of these sizes."""
    for h in steps:
        x = x - h * x.sin()
    return x


EXERCISE = FunctionExercise(
    answer="Solve",
    points=1,
    difficulty="medium",
    minutes=10,
    section="What gradcheck does not ask",
    constraints="backward may run as often as somebody asks",
    reference=solve,
    samplers={
        "3 steps on a 2×3 matrix": lambda rng: (normal(rng, 2, 3), (0.1, 0.2, 0.05)),
        "one step on a vector": lambda rng: (normal(rng, 4), (0.3,)),
        "no step": lambda rng: (normal(rng, 1, 5), ()),
        "a single number (0-dim)": lambda rng: (normal(rng), (0.1, 0.1)),
    },
    double_backward=False,
    checks=CONDUCT,
    modeled_on="DGL #1046: a cache on ctx that backward cleared, and retain_graph=True",
)
