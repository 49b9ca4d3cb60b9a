"""Detect the structure of an example's values, and draw other inputs with the same structure.

Some Functions are correct only for symmetric or orthogonal matrices, for probabilities, or inside
the unit ball. The example reveals this restriction. ``another`` draws a value with the same range,
signs and structure. ``Structure.tangent`` projects a change onto the changes that keep the
structure. For an example with a structure, a gradient is correct if it agrees with ``forward``
along these changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from autograd_doctor._numerics.tensors import is_float

CLOSE = 1e-5  # relative to the largest element: the error of an example in float32
SPREAD = 4.0  # the largest factor by which an element changes
TURN = 0.5  # approximate angle of a random rotation


@dataclass(frozen=True)
class Structure:
    """The set of values that satisfy the same equation as the example.

    Attributes:
        words: A description of the values in the set, such as "symmetric" or "unit vectors".
        is_matrix: Whether the equation relates the elements of a square matrix.
        tangent: A function that projects a change to the example onto the changes that satisfy the
            equation.
        draw: A function that returns another value in the set.
    """

    words: str
    tangent: Callable[[Tensor], Tensor]
    draw: Callable[[torch.Generator], Tensor]
    is_matrix: bool = False


def structure_of(value: Tensor) -> Structure | None:
    """Return the structure of a floating-point or complex tensor, or ``None`` if it has none."""
    if not is_float(value) or value.numel() < 2 or not bool(torch.isfinite(value).all()):
        return None
    value = value.detach()
    if bool((value == value.reshape(-1)[0]).all()):
        return None  # a matrix of equal elements, such as ones, has a structure by chance
    if value.dim() >= 2 and value.shape[-1] == value.shape[-2] and value.shape[-1] > 1:
        found = _matrix(value)
        if found is not None:
            return found
    return None if value.is_complex() else _along_a_dim(value)


def another(value: Tensor, rng: torch.Generator) -> Tensor:
    """Return a random value with the same range, signs and structure as the example."""
    if not value.numel():
        return value.clone()
    if (structure := structure_of(value)) is not None:
        return structure.draw(rng)
    if value.is_complex() or bool((value == value.reshape(-1)[0]).all()):
        return _scaled(value, rng)
    if bool((value == value.round()).all()):
        return _one_hot(value, rng) if _is_one_hot(value) else _shuffled(value, rng)
    sample = _within_norms(value, _within_range(value, rng))
    return sorted_like(value, sample)


# --------------------------------------------------------------------------------------------------
# Square matrices.
# --------------------------------------------------------------------------------------------------


def _matrix(value: Tensor) -> Structure | None:
    lower, upper = bool(value.tril(-1).any()), bool(value.triu(1).any())
    if not (lower or upper):
        return Structure("diagonal", _diagonal, partial(_scaled, value), is_matrix=True)
    if lower != upper:
        part = torch.tril if lower else torch.triu
        fixed = value.diagonal(dim1=-2, dim2=-1)
        unit = bool((fixed == 1).all()) or not bool(fixed.any())
        words = f"{'lower' if lower else 'upper'} triangular"
        offset = (-1 if lower else 1) if unit else 0
        words += " with a constant diagonal" if unit else ""
        return Structure(
            words,
            partial(part, diagonal=offset),
            lambda rng: value + part(_scaled(value, rng) - value, diagonal=offset),
            is_matrix=True,
        )
    if is_symmetric(value):
        return _symmetric(value)
    if _close(value, -value.mH):
        return Structure(
            "antisymmetric",
            lambda change: (change - change.mH) / 2,
            lambda rng: _lower_repeated(_scaled(value, rng), -1),
            is_matrix=True,
        )
    one = torch.eye(value.shape[-1], dtype=value.dtype, device=value.device)
    whole = value.is_complex() is False and bool((value == value.round()).all())
    if not whole and _close(value.mH @ value, one.expand_as(value)):
        return Structure(
            "unitary" if value.is_complex() else "orthogonal",
            lambda change: change - value @ _hermitian(value.mH @ change),
            lambda rng: value @ torch.matrix_exp(_skew(_normal(value, rng))),
        )
    return None


def is_symmetric(value: Tensor) -> bool:
    """Return whether a tensor contains symmetric matrices.

    Trivial matrices, such as ones and eye, do not count.
    """
    if value.dim() < 2 or not value.shape[-1] == value.shape[-2] > 1:
        return False
    if not bool(value.tril(-1).any()) or bool((value == value.flatten()[0]).all()):
        return False
    return _close(value, value.mH)


def _symmetric(value: Tensor) -> Structure:
    words = "Hermitian" if value.is_complex() else "symmetric"
    _, failed = torch.linalg.cholesky_ex(value)
    definite = not bool(failed.any())
    words += " positive definite" if definite else ""

    def draw(rng: torch.Generator) -> Tensor:
        return _congruent(value, rng) if definite else _lower_repeated(_scaled(value, rng), 1)

    return Structure(words, _hermitian, draw, is_matrix=True)


def _congruent(value: Tensor, rng: torch.Generator) -> Tensor:
    """Return ``M A Mᴴ`` for a random ``M``, scaled to the magnitude of ``A``.

    If the diagonal of ``A`` is constant, keep this diagonal instead.
    """
    size = value.shape[-1]
    moved = torch.eye(size, dtype=value.dtype, device=value.device)
    moved = moved + TURN * _normal(value, rng) / size**0.5
    found = _hermitian(moved @ value @ moved.mH)
    diagonal = value.diagonal(dim1=-2, dim2=-1).real
    if _close(diagonal, diagonal.flatten()[0].expand_as(diagonal)):  # true of a correlation matrix
        root = (diagonal / found.diagonal(dim1=-2, dim2=-1).real).sqrt()
        return found * root.unsqueeze(-1) * root.unsqueeze(-2)
    return found * float(value.abs().max() / found.abs().max())


def _lower_repeated(value: Tensor, sign: int) -> Tensor:
    """Replace the upper triangle with a mirrored and conjugated copy of the lower triangle."""
    below = value.tril(-1)
    return below + sign * below.mH + _diagonal(value)


def _diagonal(value: Tensor) -> Tensor:
    return torch.diag_embed(value.diagonal(dim1=-2, dim2=-1))


def _hermitian(change: Tensor) -> Tensor:
    return (change + change.mH) / 2


def _skew(change: Tensor) -> Tensor:
    return TURN * (change - change.mH) / 2


def halved(truth: Tensor, actual: Tensor) -> Tensor:
    """Return the expected gradient of a matrix in the same form as the actual gradient.

    A forward for symmetric matrices may read only one triangle, as ``torch.linalg.cholesky`` does.
    Finite differences then attribute the whole slope to that triangle. A backward that returns half
    of the slope in each triangle is also correct.
    """
    if truth.is_complex() or truth.dim() < 2 or not truth.shape[-1] == truth.shape[-2] > 1:
        return truth
    if not _close(actual, actual.mT):
        return truth
    both = (truth * truth.mT)[torch.ones_like(truth, dtype=torch.bool).tril(-1)]
    known = both[~torch.isnan(both)]
    return (truth + truth.mT) / 2 if known.numel() and not bool(known.any()) else truth


# --------------------------------------------------------------------------------------------------
# Rows that sum to one, or that have length one.
# --------------------------------------------------------------------------------------------------


def _along_a_dim(value: Tensor) -> Structure | None:
    for dim in dict.fromkeys((value.dim() - 1, 0, max(value.dim() - 2, 0))):
        if value.shape[dim] < 2 or bool((value == value.round()).all()):
            continue
        found = _probabilities(value, dim) or _unit_vectors(value, dim)
        if found is not None:
            return found
    return None


def _probabilities(value: Tensor, dim: int) -> Structure | None:
    one = torch.ones((), dtype=value.dtype, device=value.device)
    if bool((value >= 0).all()) and _close(value.sum(dim), one):

        def draw(rng: torch.Generator) -> Tensor:
            found = value * SPREAD ** _uniform(value, rng)
            return found / found.sum(dim, keepdim=True)

        return Structure("probabilities", partial(_without_mean, dim), draw)
    if bool((value <= 0).all()) and _close(value.exp().sum(dim), one):
        known = value.softmax(dim)
        return Structure(
            "log-probabilities",
            lambda change: (
                change
                - known
                * (known * change).sum(dim, keepdim=True)
                / known.square().sum(dim, keepdim=True)
            ),
            lambda rng: (value + _uniform(value, rng)).log_softmax(dim),
        )
    return None


def _without_mean(dim: int, change: Tensor) -> Tensor:
    return change - change.mean(dim, keepdim=True)


def _unit_vectors(value: Tensor, dim: int) -> Structure | None:
    lengths = value.norm(dim=dim)
    if not _close(lengths, torch.ones_like(lengths)):
        return None

    def draw(rng: torch.Generator) -> Tensor:
        found = value + TURN * _normal(value, rng) / value.shape[dim] ** 0.5
        unit: Tensor = found / found.norm(dim=dim, keepdim=True)
        return unit

    return Structure(
        "unit vectors",
        lambda change: change - value * (value * change).sum(dim, keepdim=True),
        draw,
    )


# --------------------------------------------------------------------------------------------------
# Values without an equation: their range, signs, order, and whether they are whole numbers.
# --------------------------------------------------------------------------------------------------


def _within_range(value: Tensor, rng: torch.Generator) -> Tensor:
    """Multiply each element by a random factor.

    The signs stay the same, and each element stays within the example's range.
    """
    sample = value.clone()
    noise = _uniform(value, rng)
    for sign in (1, -1):
        side = value * sign > 0
        if not bool(side.any()):
            continue
        size = value[side].abs()
        lowest = size.min() if bool(side.all()) else size / SPREAD
        low = torch.log(torch.maximum(lowest / size, torch.tensor(1 / SPREAD).to(size)))
        high = torch.log(torch.minimum(size.max() / size, torch.tensor(SPREAD).to(size)))
        factor = torch.exp(low + (high - low) * (noise[side] + 1) / 2)
        sample[side] = value[side] * factor
    return sample


def _within_norms(value: Tensor, sample: Tensor) -> Tensor:
    """Scale down rows whose norm is larger than that of any row in the example."""
    if not value.dim() or value.shape[-1] < 2:
        return sample
    longest: Tensor = value.norm(dim=-1).max()
    lengths: Tensor = sample.norm(dim=-1, keepdim=True)
    return sample * (longest / lengths).clamp_max(1.0)


def sorted_like(value: Tensor, sample: Tensor) -> Tensor:
    """If the rows of the example are sorted, sort the rows of the sample in the same order."""
    if not value.dim() or value.shape[-1] < 3:
        return sample
    steps = value.diff(dim=-1)
    if bool((steps >= 0).all()):
        return sample.sort(-1).values
    return sample.sort(-1, descending=True).values if bool((steps <= 0).all()) else sample


def _scaled(value: Tensor, rng: torch.Generator) -> Tensor:
    """Multiply each element by a random factor, without exceeding the largest magnitude.

    Zeros stay zero.
    """
    noise = _uniform(value, rng)
    size = value.abs()
    room = torch.log(size.max() / size).nan_to_num(0.0, 0.0, 0.0)
    low = -torch.log(torch.tensor(SPREAD).to(size))
    high = torch.minimum(room, -low)
    return value * torch.exp(low + (high - low) * (noise + 1) / 2)


def _shuffled(value: Tensor, rng: torch.Generator) -> Tensor:
    order = torch.randperm(value.numel(), generator=rng).to(value.device)
    return sorted_like(value, value.reshape(-1)[order].reshape(value.shape))


def _is_one_hot(value: Tensor) -> bool:
    zero_or_one = bool(((value == 0) | (value == 1)).all())
    return zero_or_one and value.dim() > 0 and bool((value.sum(-1) == 1).all())


def _one_hot(value: Tensor, rng: torch.Generator) -> Tensor:
    scores = torch.rand(value.shape, generator=rng, dtype=torch.float64).to(value.device)
    return torch.zeros_like(value).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)


# --------------------------------------------------------------------------------------------------
# Helpers.
# --------------------------------------------------------------------------------------------------


def _uniform(like: Tensor, rng: torch.Generator) -> Tensor:
    """Draw real numbers between -1 and 1."""
    return 2 * torch.rand(like.shape, generator=rng, dtype=torch.float64).to(like.device) - 1


def _normal(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype).to(like.device)


def _close(one: Tensor, other: Tensor) -> bool:
    if not one.numel():
        return True
    return bool(((one - other).abs() <= CLOSE * other.abs().max()).all())
