"""The exercises of lesson 10: SciPy, a fixed point, a linear solve, and an operator in C++."""

from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    keeps_at_most,
    no_tensor_on_ctx,
    without,
)
from autograd_course.grader.exercise import Exercise, FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_10_bounds import keeps_float32, records_one_round
from autograd_course.grader.exercises.lesson_10_operator import OPERATOR, SOFT_THRESHOLD
from autograd_course.grader.exercises.lesson_10_solvers import (
    always_lower,
    complex_w,
    equilibrium,
    exchanged,
    lambert_w,
    linearized,
    not_transposed,
    other_half,
    triangular_solve,
    whole,
    without_diagonal,
)
from autograd_course.grader.sampling import normal, positive

LESSON = "10_external_code"
TITLE = "External code"


def weak(rng: torch.Generator, n: int) -> Tensor:
    """Return a weight whose rows are so small that four times as much still has a fixed point."""
    weight = normal(rng, n, n)
    return 0.1 * weight / weight.abs().sum(1, keepdim=True)


def triangular(rng: torch.Generator, n: int) -> Tensor:
    """Return a matrix with numbers in both halves, and none near 0 on its diagonal."""
    return normal(rng, n, n) / 2 + torch.diag(1 + positive(rng, n))


def with_zero(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of which one is 0."""
    x = positive(rng, 4, 3)
    x[0, 0] = 0
    return (x,)


NUMBERS: Mapping[str, Sampler] = {
    "a 4×3 matrix": lambda rng: (2 * positive(rng, 4, 3),),
    "a matrix with a 0 in it": with_zero,
    "three axes, one of length 1": lambda rng: (positive(rng, 2, 1, 3),),
    "a single number (0-dim)": lambda rng: (positive(rng),),
}

LAYERS: Mapping[str, Sampler] = {
    "4 rows of 2": lambda rng: (normal(rng, 4, 2), weak(rng, 2)),
    "a single row": lambda rng: (normal(rng, 1, 3), weak(rng, 3)),
    "one unit": lambda rng: (normal(rng, 3, 1), weak(rng, 1)),
}

SYSTEMS: Mapping[str, Sampler] = {
    # First: that the wrong half was kept shows here at once, and below only the second time.
    "an upper triangle": lambda rng: (triangular(rng, 3), normal(rng, 3, 5), False),
    "two right-hand sides": lambda rng: (triangular(rng, 4), normal(rng, 4, 2)),
    "a single right-hand side": lambda rng: (triangular(rng, 3), normal(rng, 3, 1)),
    "a single equation": lambda rng: (triangular(rng, 1), normal(rng, 1, 3)),
}

LAMBERT_W = FunctionExercise(
    id="lambert-w",
    lesson=LESSON,
    title="A special function of SciPy",
    points=3,
    reference=lambert_w,
    samplers=NUMBERS,
    suspects={
        "lambertw returns complex numbers, also where all imaginary parts are 0: take .real.": (
            complex_w
        ),
    },
    double_backward=True,
    hints=(
        "SciPy gives the values, and no derivative. But you have the equation that w solves: "
        "differentiate both sides, as the lesson does with Kepler's. And look at the dtype of what "
        "lambertw returns.",
        "It returns complex numbers; their real parts are meant, as a tensor of the dtype and on "
        "the device of x. The equation gives (1 + w)·exp(w) dw = dx. Whatever backward is made of "
        "must be PyTorch's, and come from a tensor with a graph: w itself, the one that forward "
        "returns.",
        "w = torch.as_tensor(lambertw(x.numpy(force=True)).real, dtype=x.dtype, device=x.device); "
        "save w. backward returns grad_output * torch.exp(-w) / (1 + w). "
        "(w / (x * (1 + w)) is the same, but 0/0 at x = 0.)",
    ),
    read='lesson 10, "The whole thing, working"',
    checks=(backward_is_a_formula, no_tensor_on_ctx, keeps_float32),
    bounds="the output has the dtype of x",
)

EQUILIBRIUM = FunctionExercise(
    id="equilibrium-layer",
    lesson=LESSON,
    title="A fixed-point layer",
    points=4,
    reference=equilibrium,
    samplers=LAYERS,
    gradient_suspects={
        "This is the gradient of the last round alone: it takes z on the right-hand side for a "
        "constant. But that z depends on x and W too, and this is what the linear system is for.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype))
        ),
        "The linear system has W where it should have Wᵀ, or the other way round. With rows, "
        "forward computes z @ W.t(); how does a gradient go back through that product?": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - slope * W.t())
        ),
        "In the linear system the slope of the tanh is missing. One round is a product and then a "
        "tanh, so each time u goes back through it, it goes back through both.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - W)
        ),
        "The linear system is right, and u is the gradient at the output of the tanh. x and W "
        "stand inside of it: one slope is missing at the end.": (
            linearized(lambda slope, W: torch.eye(len(W), dtype=W.dtype) - slope * W, outside=True)
        ),
    },
    hints=(
        "forward is one call of settled. For backward, forget how z was found and look at the "
        "equation that it solves. What does a gradient u at z become when it goes back through "
        "one round, z = tanh(z Wᵀ + x), to the z on the right-hand side?",
        "It becomes (u * (1 - z²)) @ W. So u = g + (u * (1 - z²)) @ W, a fixed point again: "
        "settled finds it. Then one more step back, this time to x and to W.",
        "s = 1 - z**2; u = settled(lambda u: grad_output + (u * s) @ W, grad_output); v = u * s. "
        "Return v for x and v.t() @ z for W. forward saves W and z.",
    ),
    read='lesson 10, "A fixed-point layer"',
    seconds=20.0,  # the solver runs some hundred times
    checks=(
        no_tensor_on_ctx,
        keeps_at_most(
            lambda x, W: 2 * x.nbytes + W.nbytes, "x, W and the solution, but none of the rounds"
        ),
        records_one_round,
    ),
    bounds="no round of the solver is kept",
)

TRIANGULAR_SOLVE = FunctionExercise(
    id="triangular-solve",
    lesson=LESSON,
    title="A triangular system, twice",
    points=3,
    seconds=20.0,  # on a busy machine LAPACK's threads wait for one another: 30 ms a solution
    reference=triangular_solve,
    samplers=SYSTEMS,
    double_backward=True,
    gradient_suspects={
        "This is what comes of solving with T in backward too. The implicit function theorem asks "
        "for the transposed matrix: Tᵀ U = G. Which half of Tᵀ is filled?": not_transposed,
        "The matrix is transposed, and the solver still reads the half that it read in forward. "
        "What stood in the upper half of T stands in the lower half of Tᵀ.": other_half,
        "Which half of T is read is said by lower, and only that half gets a gradient. Here it is "
        "the lower one each time.": always_lower,
        "One half of T is never read, so nothing depends on it and its gradient is 0. The product "
        "of U and Xᵀ fills both halves.": whole,
        "This is -X Uᵀ. T has a row for each equation, as B and U have, and a column for each "
        "unknown, as X has a row: which of the two comes first?": exchanged,
        "The diagonal belongs to the half that is read, and gets its gradient: tril() and triu() "
        "keep it, tril(-1) and triu(1) do not.": without_diagonal,
    },
    hints=(
        "In the lesson's linear system x and b were vectors. Here each column of X is such a "
        "vector, with the same T: T's gradient is a sum over the columns. And which elements of T "
        "has forward never looked at?",
        "Tᵀ U = G is a triangular system too, with the other half filled: the Function can call "
        "itself, and so its backward can be differentiated. B gets U. T gets -U Xᵀ, and zeros in "
        "the half that is not read.",
        "U = TriangularSolve.apply(T.mT, grad_output, not ctx.lower); grad_T = -U @ X.mT, then "
        ".tril() where ctx.lower, else .triu(). Return grad_T, U, None. forward saves T and the X "
        "that it returns.",
    ),
    read='lesson 10, "A linear system"',
    checks=(
        backward_is_a_formula,
        no_tensor_on_ctx,
        keeps_float32,
        without("linalg_inv_ex", "linalg_inv", "inverse", use="a solver: U from Tᵀ U = G"),
    ),
    bounds="the output has the dtype of B",
)

EXERCISES: tuple[Exercise, ...] = (
    LAMBERT_W,
    EQUILIBRIUM,
    TRIANGULAR_SOLVE,
    OPERATOR,
    SOFT_THRESHOLD,
)
