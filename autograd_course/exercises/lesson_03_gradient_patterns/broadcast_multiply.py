"""Multiply with broadcasting

1. The product rule gives y · g for x, with the shape of the output. Along which dims was x copied?
   In each of them, x has size 1, or x does not have this dim.
2. A copy in the forward pass is a sum in the backward pass. Sum over two kinds of dims. The leading
   dims that x does not have disappear. The dims where x has size 1 keep the size 1.
3. Write a helper. While the gradient has more dims than x, sum over dim 0. Then for every dim where
   x.shape has a 1, call sum(dim, keepdim=True). Tensor.sum_to_size does the same. Use it on y · g
   for x, and on x · g for y.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def broadcast_multiply(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x · y`` for shapes that broadcast."""
    return x * y


EXERCISE = FunctionExercise(
    answer="BroadcastMultiply",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Broadcasting is a copy",
    constraints="backward itself returns the shapes of the inputs",
    reference=broadcast_multiply,
    samplers={
        "two of the same shape": lambda rng: (normal(rng, 2, 3), normal(rng, 2, 3)),
        "a 3×5 matrix and a vector": lambda rng: (normal(rng, 3, 5), normal(rng, 5)),
        "a column and a row": lambda rng: (normal(rng, 3, 1), normal(rng, 1, 4)),
        "a vector and three dims": lambda rng: (normal(rng, 4), normal(rng, 2, 3, 1)),
        "a single number (0-dim)": lambda rng: (normal(rng), normal(rng, 2, 3)),
    },
    checks=CONDUCT,
)
