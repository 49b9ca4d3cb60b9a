"""A triangular system, twice

1. In the lesson's linear system x and b were vectors. Here each column of X is such a vector, with
   the same T: T's gradient is a sum over the columns. And which elements of T has forward never
   looked at?
2. Tᵀ U = G is a triangular system too, with the other half filled: the Function can call itself,
   and so its backward can be differentiated. B gets U. T gets -U Xᵀ, and zeros in the half that is
   not read.
3. U = TriangularSolve.apply(T.mT, grad_output, not ctx.lower); grad_T = -U @ X.mT, then .tril()
   where ctx.lower, else .triu(). Return grad_T, U, None. forward saves T and the X that it returns.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from autograd_course.exercises.lesson_13_solvers._scipy import keeps_float32
from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive


def triangular_solve(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
    """Return the ``X`` with ``T X = B``, reading one half of ``T``.

    Raises ``ValueError``, as SciPy does, where ``T`` is not finite.
    """
    if not bool(T.isfinite().all()):
        raise ValueError("T has elements that are not finite")
    X: Tensor = torch.linalg.solve_triangular(_half(T, lower), B, upper=not lower)
    return X


def _half(T: Tensor, lower: bool) -> Tensor:
    return T.tril() if lower else T.triu()


def matrix(rng: torch.Generator, n: int) -> Tensor:
    """Return a matrix with numbers in both halves, and none near 0 on its diagonal."""
    return normal(rng, n, n) / 2 + torch.diag(1 + positive(rng, n))


def triangular(
    system: Callable[[Tensor, bool], Tensor] = _half, read: Callable[[Tensor, bool], Tensor] = _half
) -> Callable[..., Tensor]:
    """Return the solution, with the derivative that comes of another backward.

    It solves with the transpose of ``system(T, lower)``, and lets T's gradient go back through
    ``read(T, lower)``. Right for both is the half that is used.
    """

    def solved(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        X = torch.linalg.solve(_half(T.detach(), lower), B.detach())
        change = B - B.detach() - read(T - T.detach(), lower) @ X
        moved: Tensor = X + torch.linalg.solve(system(T.detach(), lower), change)
        return moved

    return solved


not_transposed = triangular(system=lambda T, lower: _half(T, lower).mT)
other_half = triangular(system=lambda T, lower: _half(T, not lower))
whole = triangular(read=lambda T, lower: T)
always_lower = triangular(read=lambda T, lower: T.tril())
without_diagonal = triangular(read=lambda T, lower: _half(T, lower) - torch.diag(T.diagonal()))
exchanged = triangular(read=lambda T, lower: _half(T, lower).mT)

EXERCISE = FunctionExercise(
    answer="TriangularSolve",
    points=3,
    difficulty="hard",
    minutes=20,
    section="A linear system",
    constraints="the output has the dtype of B",
    reference=triangular_solve,
    samplers={
        # First: that the wrong half was kept shows here at once, and below only the second time.
        "an upper triangle": lambda rng: (matrix(rng, 3), normal(rng, 3, 5), False),
        "two right-hand sides": lambda rng: (matrix(rng, 4), normal(rng, 4, 2)),
        "a single right-hand side": lambda rng: (matrix(rng, 3), normal(rng, 3, 1)),
        "a single equation": lambda rng: (matrix(rng, 1), normal(rng, 1, 3)),
    },
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
    double_backward=True,
    checks=(
        *CONDUCT,
        keeps_float32,
        without("linalg_inv_ex", "linalg_inv", "inverse", use="a solver: U from Tᵀ U = G"),
    ),
    seconds=20.0,  # on a busy machine LAPACK's threads wait for one another: 30 ms a solution
)
