"""Hypotheses that use the Jacobian itself: applied untransposed or unconjugated, or in part."""

from __future__ import annotations

import torch
from torch import Tensor

from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.truth.differences import as_real

NEGLIGIBLE = 1e-9  # of the largest entry: rounding of the differences, not an influence


def untransposed(m: Mismatch) -> Tensor | None:
    """Return the Jacobian times grad_output, where its transpose belongs."""
    matrix, g = _jacobian(m), _one_grad_output(m)
    if matrix is None or g is None or g.shape != m.input.shape:
        return None
    if g.is_complex() != m.input.is_complex():
        return None
    real = as_real(g)
    pushed = (matrix @ real.reshape(-1)).reshape(real.shape)
    return torch.view_as_complex(pushed) if g.is_complex() else pushed


def unconjugated(m: Mismatch) -> Tensor | None:
    """Return the transposed complex Jacobian of a holomorphic map times grad_output."""
    matrix, g = _jacobian(m), _one_grad_output(m)
    if matrix is None or g is None or not (g.is_complex() and m.input.is_complex()):
        return None
    pairs = matrix.reshape(g.numel(), 2, m.input.numel(), 2)
    slack = 1e-6 * float(matrix.abs().max())
    differs = (pairs[:, 0, :, 0] - pairs[:, 1, :, 1]).abs() + (
        pairs[:, 0, :, 1] + pairs[:, 1, :, 0]
    ).abs()
    if not bool((differs <= slack).all()):  # the Cauchy-Riemann equations
        return None
    holomorphic = torch.complex(pairs[:, 0, :, 0], pairs[:, 1, :, 0])
    return (holomorphic.T @ g.reshape(-1)).reshape(m.input.shape)


def wrong_where_used_again(m: Mismatch) -> bool:
    """Whether every element that one output uses is right, and only such as several use are not."""
    reach = _reach(m)
    return reach is not None and _splits(m, reach.sum(0))


def wrong_where_shared(m: Mismatch) -> bool:
    """Whether elements that are alone in their outputs are right, and only others are wrong."""
    reach = _reach(m)
    return reach is not None and _splits(m, (reach * reach.sum(1, keepdim=True)).amax(0))


def one_term_kept(m: Mismatch) -> bool:
    """Whether each wrong element holds just one of the terms that make up its true gradient."""
    matrix, g = _jacobian(m), _one_grad_output(m)
    if matrix is None or g is None or g.is_complex():
        return False
    wrong = m.wrong.reshape(-1)
    terms = (matrix * g.reshape(-1, 1))[:, wrong]
    tolerance = m.expected.tolerance.reshape(-1)[wrong]
    hits = ((terms - m.actual.reshape(-1)[wrong]).abs() <= tolerance) & (terms != 0)
    return bool(hits.any(0).all())


def _splits(m: Mismatch, count: Tensor) -> bool:
    """Whether all that is counted once is right, and only what is counted more often is wrong."""
    count, wrong, known = count.reshape(m.wrong.shape), m.wrong, m.known
    once = (count == 1) & known
    return bool(once.any()) and not bool((wrong & (count < 2)).any())


def _reach(m: Mismatch) -> Tensor | None:
    """Return which elements of the outputs (rows) depend on which elements of the input."""
    matrix = None if m.input.is_complex() else _jacobian(m)
    if matrix is None or not matrix.numel():
        return None
    return (matrix.abs() > NEGLIGIBLE * matrix.abs().max()).long()


def _jacobian(m: Mismatch) -> Tensor | None:
    """Return the whole Jacobian with respect to this input, ``None`` where it was not examined."""
    if not m.evidence.jacobian or m.evidence.surrogate:
        return None
    matrix = m.evidence.jacobian[m.slot].matrix
    whole = matrix.shape[1] == as_real(m.input).numel() and bool(torch.isfinite(matrix).all())
    return matrix if whole else None


def _one_grad_output(m: Mismatch) -> Tensor | None:
    """Return the cotangent of the only floating output, in double precision as the Jacobian."""
    outputs = [output for output in m.evidence.forward.outputs if is_float(output)]
    g = m.evidence.pulls["random"].grad_outputs[0] if len(outputs) == 1 else None
    return None if g is None else g.to(torch.complex128 if g.is_complex() else torch.float64)
