"""A gradient that follows one path from the input to the output and forgets another."""

from __future__ import annotations

import torch
from torch import Tensor

from autograd_course.doctor.calls import is_float
from autograd_course.doctor.mismatch import Mismatch
from autograd_course.doctor.rules.wording import ordinal


def missing_dependency(m: Mismatch) -> str | None:
    """One factor was differentiated and another held fixed."""
    for cut, grads in m.evidence.held_fixed.items():
        if m.fits(grads[m.slot]):
            return (
                f"the gradient of {m.name} misses what comes back through {cut}: it is right only "
                f"if the result there did not depend on {m.name}"
            )
    return _output_path(m) or _row_term(m)


def _output_path(m: Mismatch) -> str | None:
    """One of several outputs sends nothing back."""
    for name, pull in m.evidence.pulls.items():
        if name.startswith("only") and not pull.failure:
            grad, truth = pull.grads[m.slot], m.evidence.expected[name][m.slot].value
            if (grad is None or not bool(grad.any())) and bool((truth.nan_to_num() != 0).any()):
                return (
                    f"the gradient of {m.name} misses the part that comes back through the "
                    f"{ordinal(name)} output"
                )
    return None


def _row_term(m: Mismatch) -> str | None:
    """Without a reference: the residual is, row by row, a multiple of a tensor at hand."""
    residual = m.actual - m.truth
    if not bool(m.known.all()) or residual.dim() == 0 or residual.is_complex():
        return None
    e = m.evidence
    tensors = {"a constant": torch.ones_like(residual), m.name: m.input}
    if e.forward.outputs:
        tensors["the output"] = e.forward.outputs[0]
    tensors |= {f"saved tensor {i}": s for i, s in enumerate(e.forward.saved)}
    for axis in range(residual.dim() - 1, -1, -1):
        if residual.shape[axis] < 3:
            continue
        for name, tensor in tensors.items():
            comparable = is_float(tensor) and tensor.shape == residual.shape
            if comparable and _multiple_by_row(m, residual, tensor, axis):
                form = (
                    "the same for every element"
                    if name == "a constant"
                    else f"a multiple of {name}"
                )
                return (
                    f"a term is missing from the gradient of {m.name}: along axis {axis} it is "
                    f"{form}. Something that was reduced over that axis (a mean, a norm, a "
                    "variance) was held fixed"
                )
    return None


def _multiple_by_row(m: Mismatch, residual: Tensor, tensor: Tensor, axis: int) -> bool:
    norm = (tensor * tensor).sum(axis, keepdim=True)
    if not bool((norm > 0).all()):
        return False
    factor = (residual * tensor).sum(axis, keepdim=True) / norm
    tolerance = m.expected.tolerance + 1e-9 * residual.abs().max()
    return bool(((residual - factor * tensor).abs() <= tolerance).all())
