"""Kepler's equation

1. Write down E - e sin E = M and differentiate both sides. E depends on M and on e, so e sin E is a
   product of two quantities that change. Then solve for dE.
2. dE = (dM + sin E de) / (1 - e cos E). This equation gives you the factor of each gradient. Save e
   and the output E. All elements of M share one e, so its gradient is a sum over the elements.
3. grad_M = grad_output / (1 - e * torch.cos(E)). Return grad_M and (grad_M * torch.sin(E)).sum().
   setup_context saves e and output.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive
from autograd_course.grader.suspecting import mistaken


def kepler(M: Tensor, e: Tensor) -> Tensor:
    """Return the solution ``E`` of ``E - e·sin(E) = M``, for ``0 < e < 1``.

    The solution from the bisection has no graph, so this function adds two Newton steps, which do
    not change the value. With these two steps, autograd can differentiate the result up to three
    times.
    """
    return _solution(M, e, lambda E: 1 - e * torch.cos(E))


def _root(M: Tensor, e: Tensor) -> Tensor:
    low, high = M - e.abs(), M + e.abs()
    for _ in range(60):
        middle = (low + high) / 2
        too_large = middle - e * torch.sin(middle) > M
        low, high = torch.where(too_large, low, middle), torch.where(too_large, middle, high)
    return (low + high) / 2


def _solution(M: Tensor, e: Tensor, slope: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the solution, with the derivative of a Newton step that divides by ``slope(E)``."""
    E = _root(M.detach(), e.detach())
    for _ in range(2):
        E = E - (E - e * torch.sin(E) - M) / slope(E)
    return E


def from_mean_anomaly(M: Tensor, e: Tensor) -> Tensor:
    """Return the solution with derivatives from a backward that uses M instead of E."""
    E = _root(M.detach(), e.detach())
    change = (M - M.detach()) + torch.sin(M.detach()) * (e - e.detach())
    return E + change / (1 - e.detach() * torch.cos(M.detach()))


def undivided(M: Tensor, e: Tensor) -> Tensor:
    """Return the solution with derivatives from a backward that omits the division."""
    E = _root(M.detach(), e.detach())
    return E + (M - M.detach()) + torch.sin(E) * (e - e.detach())


def angles(rng: torch.Generator, *shape: int) -> Tensor:
    """Return angles between 0 and 2π."""
    return 0.2 + 5.8 * torch.rand(shape, generator=rng, dtype=torch.float64)


def eccentricity(rng: torch.Generator) -> Tensor:
    """Return a number between 0.2 and 0.7."""
    return 0.2 + 0.5 * positive(rng).clamp(max=1.0)


def by_hand(
    divisor: Callable[[Tensor, Tensor], Tensor] = lambda e, E: 1 - e * torch.cos(E),
    share: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = (
        lambda g, of_M, e, E: of_M * torch.sin(E)
    ),
    *,
    mean: bool = False,
) -> Callable[..., Any]:
    """Return the solution with an alternative backward, which divides by ``divisor(e, E)``.

    ``share(grad_output, grad_M, e, E)`` returns one term per element. The gradient of e is the sum
    of the terms, or their mean if ``mean`` is true.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        M, e = inputs
        E = _root(M, e)
        of_M = g / divisor(e, E)
        terms = share(g, of_M, e, E)
        return of_M, terms.mean() if mean else terms.sum()

    return mistaken(kepler, backward)


KEPLER_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "You divide by 1 + e cos E. The derivative of E - e sin E with respect to E is 1 - e cos E.": (
        by_hand(lambda e, E: 1 + e * torch.cos(E))
    ),
    "You divide by 1 - e sin E. The derivative of sin E is cos E.": by_hand(
        lambda e, E: 1 - e * torch.sin(E)
    ),
    "The factor e is missing: divide by 1 - e cos E.": by_hand(lambda e, E: 1 - torch.cos(E)),
    "You multiply by 1 - e cos E. The equation gives (1 - e cos E) dE = dM + sin E de, so divide "
    "by it.": by_hand(lambda e, E: 1 / (1 - e * torch.cos(E))),
    "The gradient of e has the wrong sign. The equation gives (1 - e cos E) dE = dM + sin E de.": (
        by_hand(share=lambda g, of_M, e, E: -of_M * torch.sin(E))
    ),
    "The gradient of e contains cos E. The term with de in the equation is sin E de.": by_hand(
        share=lambda g, of_M, e, E: of_M * torch.cos(E)
    ),
    "The gradient of e is not divided by 1 - e cos E.": by_hand(
        share=lambda g, of_M, e, E: g * torch.sin(E)
    ),
    "The gradient of e has a factor e too many. The derivative of e sin E with respect to e is "
    "sin E.": by_hand(share=lambda g, of_M, e, E: e * of_M * torch.sin(E)),
    "The gradient of e contains E itself. The term with de in the equation is sin E de.": by_hand(
        share=lambda g, of_M, e, E: of_M * E
    ),
    "The factor sin E is missing in the gradient of e. The term with de in the equation is sin E "
    "de.": by_hand(share=lambda g, of_M, e, E: of_M),
    "You divide by e - cos E. The derivative of E - e sin E with respect to E is 1 - e cos E.": (
        by_hand(lambda e, E: e - torch.cos(E))
    ),
    "The gradient of e is the mean over the elements. All of them use the same e, so add.": (
        by_hand(mean=True)
    ),
}


EXERCISE = FunctionExercise(
    answer="Kepler",
    points=2,
    difficulty="medium",
    minutes=10,
    section="A planet in the noise",
    needs_sections=("NumPy and SciPy inside a Function",),
    reference=kepler,
    samplers={
        "seven angles": lambda rng: (angles(rng, 7), eccentricity(rng)),
        "a 2×3 matrix of angles": lambda rng: (angles(rng, 2, 3), eccentricity(rng)),
        "a single angle (0-dim)": lambda rng: (angles(rng), eccentricity(rng)),
    },
    gradient_suspects={
        **KEPLER_GRADIENTS,
        "Your backward computes the sine and the cosine of M. The differentiated equation contains "
        "the sine and the cosine of E, the output.": from_mean_anomaly,
        "Your backward does not divide by 1 - e cos E. E is on both sides of the differentiated "
        "equation: dE - e cos E dE = dM + sin E de.": undivided,
    },
    double_backward=True,
    checks=CONDUCT,
)
