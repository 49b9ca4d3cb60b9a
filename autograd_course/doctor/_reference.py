"""Put the truth beside what was seen: from differences, from a reference, or from a surrogate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import size
from autograd_course.doctor.comparing.mismatch import mismatches
from autograd_course.doctor.evidence import Columns, Evidence, Expected
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.truth.declared import Declared, Reference
from autograd_course.doctor.truth.differences import as_real
from autograd_course.doctor.truth.extremes import at_extremes
from autograd_course.doctor.truth.projection import flat_cotangent, judged

SHORT = (torch.float16, torch.bfloat16)
FEW_BITS = 6  # a quantizer's levels have no more digits than that, numbers of 16 bits have
FEWEST = 3  # numbers to tell the two apart by

# Of a gradient's largest element: well above what float64 loses, below any real bug.
RELATIVE = 1e-6


def establish(
    evidence: Evidence, reference: Reference | None, surrogate: Reference | None, seed: int
) -> Evidence:
    """Return the evidence with the expected gradients filled in."""
    if not evidence.pulls and reference is None:
        return evidence
    declared, columns = None, evidence.jacobian
    if reference is not None:
        declared = Declared(reference, evidence, seed)
        right = tuple(out.detach() for out in declared.outputs)
        far = at_extremes(evidence, reference, seed, gradients=surrogate is None)
        evidence = replace(evidence, reference_outputs=right, extremes=far)
    if surrogate is not None:  # its kinks are not those of the quantizer that it stands in for
        declared = Declared(surrogate, evidence, seed, "surrogate")
        columns = ()
    evidence = replace(evidence, surrogate=surrogate is not None)
    if declared is None and in_16_bits(evidence):
        columns = ()
    evidence = replace(evidence, expected=_all_expected(evidence, columns, declared))
    if declared and surrogate is not None and mismatches(evidence):  # where is it smooth?
        columns = declared.jacobian()
        evidence = replace(evidence, expected=_all_expected(evidence, columns, declared))
    return _with_conventions(evidence, declared) if declared else evidence


def in_16_bits(evidence: Evidence) -> bool:
    """Whether forward returns 16-bit numbers, whatever their dtype: then no slope is seen."""
    outputs = [out for out in evidence.forward.outputs if is_float(out)]
    if any(out.dtype in SHORT for out in outputs):
        return True
    if not evidence.jacobian or any(bool(c.matrix[:, c.smooth].any()) for c in evidence.jacobian):
        return False
    return _fit_16_bits(torch.cat([as_real(out).reshape(-1).double() for out in outputs]))


def _fit_16_bits(values: Tensor) -> bool:
    """Whether a 16-bit dtype holds all values, which are too fine for the levels of a quantizer."""
    digits = torch.frexp(values[values != 0]).mantissa * 2**FEW_BITS
    if len(digits) < FEWEST or 2 * int((digits != digits.round()).sum()) <= len(digits):
        return False
    return any(torch.equal(values, values.to(dtype).double()) for dtype in SHORT)


def _all_expected(
    evidence: Evidence, jacobian: Sequence[Columns], declared: Declared | None
) -> dict[str, tuple[Expected, ...]]:
    """Return the truth for the pulls whose values are judged."""
    return {
        name: tuple(_expected(evidence, jacobian, declared, pull.grad_outputs))
        for name, pull in evidence.pulls.items()
        if judged(name)
    }


def _expected(
    evidence: Evidence,
    jacobian: Sequence[Columns],
    declared: Declared | None,
    grad_outputs: Sequence[Tensor | None],
) -> Iterator[Expected]:
    """Yield the truth for each wanted input; a point that is not smooth is left out, as NaN."""
    likes = [evidence.inputs[position] for position in evidence.wanted]
    known: Sequence[Columns | None] = jacobian or [None] * len(likes)
    if declared is not None:
        exact = declared.gradients(grad_outputs)
        for like, columns, grad in zip(likes, known, exact, strict=True):
            yield _from_declared(grad, columns, like)
        return
    g = flat_cotangent(evidence, grad_outputs)
    for like, columns in zip(likes, known, strict=True):
        yield _unknown(like) if columns is None else _from_columns(columns, g, like)


def _unknown(like: Tensor) -> Expected:
    """Return no truth for any element: where the projections agree, none was needed."""
    nothing = torch.full_like(like, torch.nan)
    return Expected(nothing, torch.zeros_like(nothing.real))


def _from_columns(columns: Columns, g: Tensor, like: Tensor) -> Expected:
    value = torch.full((as_real(like).numel(),), torch.nan, dtype=torch.float64, device=like.device)
    tolerance = torch.zeros_like(value)
    index = columns.index.to(like.device)
    seen = columns.matrix.T @ g
    smooth = columns.smooth.to(like.device)
    value[index] = torch.where(smooth, seen, torch.nan)
    tolerance[index] = 3 * (columns.error.T @ g.abs())
    return Expected(_like(value, like), _like(tolerance, like).abs() + _floor(seen[smooth]))


def _from_declared(known: Tensor, columns: Columns | None, like: Tensor) -> Expected:
    value = as_real(known).clone().reshape(-1)
    if columns is not None:
        value[columns.index[~columns.smooth].to(like.device)] = torch.nan
    tolerance = torch.full(like.shape, _floor(known), dtype=torch.float64, device=like.device)
    return Expected(_like(value, like), tolerance)


def _like(real: Tensor, like: Tensor) -> Tensor:
    """Return a flat real vector in the shape of a tensor, complex again if that is."""
    real = real.reshape(as_real(like).shape)
    return torch.view_as_complex(real) if like.is_complex() else real


def _floor(values: Tensor) -> float:
    return RELATIVE * size(values) + 1e-12


def _with_conventions(evidence: Evidence, declared: Declared) -> Evidence:
    """Add the declared gradient with its kinks, and, where ours differs, what it forgets."""
    if "random" not in evidence.pulls:
        return evidence
    cotangents = evidence.pulls["random"].grad_outputs
    evidence = replace(evidence, reference_grads=tuple(declared.gradients(cotangents)))
    if not mismatches(evidence):
        return evidence
    return replace(evidence, held_fixed=dict(declared.held_fixed(cotangents)))
