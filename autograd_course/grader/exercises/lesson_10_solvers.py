"""The solvers of lesson 10 as references, and the gradients that common mistakes give them.

A solution alone has no graph. Newton's steps from it change its value by nothing and carry its
derivatives: one step the first, two steps up to the third.
"""

from collections.abc import Callable

import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor

from autograd_course.functions.equilibrium import settled


def lambert_w(x: Tensor) -> Tensor:
    """Return the ``w`` with ``w·exp(w) = x``."""
    found = scipy.special.lambertw(x.numpy(force=True)).real
    w = torch.as_tensor(found, dtype=x.dtype, device=x.device)
    for _ in range(2):
        w = w - (w * w.exp() - x) / ((1 + w) * w.exp())
    return w


def complex_w(x: Tensor) -> Tensor:
    """Return it as SciPy does."""
    return torch.as_tensor(scipy.special.lambertw(x.numpy(force=True)))


def equilibrium(x: Tensor, W: Tensor) -> Tensor:
    """Return the fixed point of ``z = tanh(z Wᵀ + x)``."""
    z: Tensor = settled(x.detach(), W.detach())
    for _ in range(2):
        once = torch.tanh(z @ W.t() + x)
        system = _identity(z) - (1 - once.square())[:, :, None] * W
        z = z - torch.linalg.solve(system, (z - once)[:, :, None])[:, :, 0]
    return z


def triangular_solve(T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
    """Return the ``X`` with ``T X = B``, reading one half of ``T``.

    Raises ``ValueError``, as SciPy does, where ``T`` is not finite.
    """
    if not bool(T.isfinite().all()):
        raise ValueError("T has elements that are not finite")
    X: Tensor = torch.linalg.solve_triangular(_half(T, lower), B, upper=not lower)
    return X


def linearized(
    system: Callable[[Tensor, Tensor], Tensor], outside: bool = False
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the fixed point, with the derivative that comes of solving another linear system.

    ``system`` takes the slopes of the tanh, as columns, and ``W``. Right is ``I - slopes * W``.
    ``outside``: as if x and W stood outside of the tanh.
    """

    def solved(x: Tensor, W: Tensor) -> Tensor:
        z = settled(x.detach(), W.detach())
        slope = 1 - z.square()
        change = (1 if outside else slope) * (x - x.detach() + z @ (W - W.detach()).t())
        matrix = system(slope[:, :, None], W.detach()).expand(len(z), *W.shape)
        moved: Tensor = z + torch.linalg.solve(matrix, change[:, :, None])[:, :, 0]
        return moved

    return solved


def _half(T: Tensor, lower: bool) -> Tensor:
    return T.tril() if lower else T.triu()


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


def _identity(z: Tensor) -> Tensor:
    return torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
