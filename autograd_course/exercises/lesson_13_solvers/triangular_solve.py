"""A triangular system, twice

1. In the lesson's linear system, x and b were vectors. Here each column of X is such a vector. All
   columns share T, so the gradient of T is a sum over the columns. Which elements of T does forward
   never read?
2. Tᵀ U = G is also a triangular system, but its other half is filled. So the Function can call
   itself, and autograd can differentiate this call. The gradient of B is U. The gradient of T is
   -U Xᵀ, with zeros in the half that forward does not read.
3. U = TriangularSolve.apply(T.mT, grad_output, not ctx.lower); grad_T = -U @ X.mT. Use
   grad_T.tril() if ctx.lower, and grad_T.triu() otherwise. Return grad_T, U, None. setup_context
   saves T and the output.
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import DispatchMode, iter_tensors
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import gradients
from autograd_course.exercises.lesson_13_solvers._scipy import keeps_float32
from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.comparison import difference
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive
from autograd_course.grader.suspecting import Grads, mistaken


def triangular_solve(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
    """Return the solution ``X`` of ``T X = B``, and read only one triangle of ``T``.

    Raises ``ValueError``, as SciPy does, if ``T`` is not finite.
    """
    if not bool(T.isfinite().all()):
        raise ValueError("T has elements that are not finite")
    X: Tensor = torch.linalg.solve_triangular(_half(T, lower), B, upper=not lower)
    return X


def _half(T: Tensor, lower: bool) -> Tensor:
    return T.tril() if lower else T.triu()


def _with_ones(T: Tensor) -> Tensor:
    return T - torch.diag(T.diagonal()) + torch.eye(len(T), dtype=T.dtype)


def matrix(rng: torch.Generator, n: int) -> Tensor:
    """Return a matrix with numbers in both triangles, and no diagonal element near 0."""
    return normal(rng, n, n) / 2 + torch.diag(1 + positive(rng, n))


def triangular(
    system: Callable[[Tensor, bool], Tensor] = _half, read: Callable[[Tensor, bool], Tensor] = _half
) -> Callable[..., Tensor]:
    """Return the correct solution, with the derivative from an alternative backward.

    This backward solves with the transpose of ``system(T, lower)`` and computes the gradient of T
    through ``read(T, lower)``. The derivative is correct if both functions select the triangle that
    forward uses.
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
other_half_not_transposed = triangular(system=lambda T, lower: _half(T, not lower).mT)
both_halves = triangular(system=lambda T, lower: T)
both_halves_not_transposed = triangular(system=lambda T, lower: T.mT)
always_lower = triangular(read=lambda T, lower: T.tril())
without_diagonal = triangular(read=lambda T, lower: _half(T, lower) - torch.diag(T.diagonal()))
exchanged = triangular(read=lambda T, lower: _half(T, lower).mT)


def by_hand(
    of_T: Callable[..., Tensor] = lambda G, U, X, B: -U @ X.mT, *, unsolved: bool = False
) -> Callable[..., Any]:
    """Return the solution with a different gradient of T, half of which backward sets to 0.

    ``of_T`` takes ``grad_output``, U, X and B. If ``unsolved``, the gradient of B is
    ``grad_output``.
    """

    def backward(inputs: Any, G: Tensor) -> Grads:
        T, B, *rest = inputs
        lower = rest[0] if rest else True
        X = triangular_solve(*inputs)
        U = torch.linalg.solve(_half(T, lower).mT, G)
        return _half(of_T(G, U, X, B), lower), G if unsolved else U

    return mistaken(triangular_solve, backward)


def no_inverse(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that no operation takes or returns the inverse of T or of its transpose."""
    T = _half(inputs[0], inputs[2] if len(inputs) > 2 else True)
    _, outputs = applied(function, inputs)
    with Inverses(T) as inverses:
        backward(outputs)
    if not inverses.found:
        return None
    return found(
        "unneeded-function",
        "`backward` computes the inverse of the matrix. A solution whose right-hand side is the "
        "identity matrix is also the inverse.",
        {"shape": tuple(T.shape)},
        "Solve Tᵀ U = G with `grad_output` itself as the right-hand side.",
    )


class Inverses(DispatchMode):
    """In a ``with`` block, note whether an operation takes or returns the inverse of a matrix.

    The inverse with other factors for its columns counts, too.
    """

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inverse = torch.linalg.inv(matrix)
        self.found = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and compare its tensors with the inverse."""
        result = func(*args, **(kwargs or {}))
        self.found = self.found or any(map(self._is_inverse, iter_tensors([args, result])))
        return result

    def _is_inverse(self, tensor: Tensor) -> bool:
        if tensor.shape != self.inverse.shape or len(tensor) == 1:  # a number has a reciprocal
            return False
        found = _directions(tensor.to(self.inverse))
        both = (self.inverse, self.inverse.mT)
        return any(torch.allclose(found, _directions(inverse)) for inverse in both)


def _directions(matrix: Tensor) -> Tensor:
    """Divide each column by its largest element. Multiples of a matrix have the same result."""
    return matrix / matrix.gather(0, matrix.abs().argmax(0, keepdim=True))


def is_right_for_both_halves(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check the first derivatives for the other half if a second derivative is wrong.

    If ``backward`` calls the Function with the other half, second derivatives depend on these first
    derivatives.
    """
    lower = not (inputs[2] if len(inputs) > 2 else True)
    given = (inputs[0].mT.contiguous(), inputs[1], lower)
    if difference(gradients(function.apply, given), gradients(triangular_solve, given)) is None:
        return None
    return found(
        "silent-double-backward",
        "The first derivatives are wrong for the other half.",
        {"lower": lower},
        f"With lower={lower}, even the first derivatives are wrong. The system in `backward` has "
        "the other half than the one in `forward`, so derive its `lower` from `ctx.lower`.",
    )


EXERCISE = FunctionExercise(
    answer="TriangularSolve",
    points=3,
    difficulty="hard",
    minutes=20,
    section="A linear system",
    constraints="the output has the dtype of B",
    reference=triangular_solve,
    samplers={
        # This sample comes first, because it immediately shows that an answer uses the wrong half.
        "an upper triangle": lambda rng: (matrix(rng, 3), normal(rng, 3, 5), False),
        "two right-hand sides": lambda rng: (matrix(rng, 4), normal(rng, 4, 2)),
        "a single right-hand side": lambda rng: (matrix(rng, 3), normal(rng, 3, 1)),
        "a single equation": lambda rng: (matrix(rng, 1), normal(rng, 1, 3)),
    },
    suspects={
        "The upper half of T is used, although lower is True. SciPy's default is lower=False, so "
        "pass lower on.": (lambda T, B, lower=True: triangular_solve(T, B, False)),
        "The diagonal of T counts as ones. SciPy does not read the diagonal if unit_diagonal is "
        "True.": (lambda T, B, lower=True: triangular_solve(_with_ones(T), B, lower)),
        "The lower half of T is used, although lower is False. Pass lower on to "
        "solve_triangular.": (lambda T, B, lower=True: triangular_solve(T, B, True)),
        "Both halves of T are used. The other half must never be read.": (
            lambda T, B, lower=True: torch.linalg.solve(T, B)
        ),
        "The transpose of T is used.": (
            lambda T, B, lower=True: torch.linalg.solve(_half(T, lower).mT, B)
        ),
    },
    gradient_suspects={
        "The gradient of T contains grad_output where it needs U, the solution of Tᵀ U = G.": (
            by_hand(lambda G, U, X, B: -G @ X.mT)
        ),
        "The gradient of T contains B where it needs X, the output.": (
            by_hand(lambda G, U, X, B: -U @ B.mT)
        ),
        "The gradient of T lacks its minus sign.": by_hand(lambda G, U, X, B: U @ X.mT),
        "The gradient of T is the mean over the columns. All columns use the same T, so add.": (
            by_hand(lambda G, U, X, B: -U @ X.mT / X.shape[1])
        ),
        "The gradient of B is grad_output. It must be U, the solution of Tᵀ U = G.": (
            by_hand(unsolved=True)
        ),
        "Your backward solves with T. The adjoint system has the transposed matrix, Tᵀ U = G. "
        "Which half of Tᵀ is filled?": not_transposed,
        "You transposed the matrix, but the solver still reads the half that it read in forward. "
        "The upper half of T becomes the lower half of Tᵀ.": other_half,
        "Your backward solves with T, and it reads the half that forward never reads. The adjoint "
        "system has the transposed matrix, Tᵀ U = G.": other_half_not_transposed,
        "Your backward solves with both halves of T. One of them is never read in forward, so the "
        "system must not contain it.": both_halves,
        "Your backward solves with T, and with both of its halves. The adjoint system has the "
        "transpose of the half that forward reads.": both_halves_not_transposed,
        "The argument lower says which half of T is read, and only this half gets a gradient. Your "
        "gradient always fills the lower half.": always_lower,
        "One half of T is never read, so its gradient is 0, whatever numbers are there. The "
        "product of U and Xᵀ fills both halves, so set one of them to 0, by its position.": whole,
        "Your gradient is -X Uᵀ. T and U have a row for each equation, and X has a row for each "
        "unknown. Which of the two comes first in the product?": exchanged,
        "The diagonal belongs to the half that is read, so it needs a gradient. tril() and triu() "
        "keep the diagonal, but tril(-1) and triu(1) do not.": without_diagonal,
    },
    double_backward=True,
    checks=(
        *CONDUCT,
        keeps_float32,
        without(
            "linalg_inv_ex", "linalg_inv", "inverse", "inv", "pinv", use="a solver for Tᵀ U = G"
        ),
        no_inverse,
    ),
    causes=(is_right_for_both_halves,),
    seconds=20.0,  # on a busy machine, the threads of LAPACK wait, and a solution takes 30 ms
)
