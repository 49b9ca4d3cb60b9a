"""Hypotheses about a wrong gradient: each says what the gradient would be if one mistake was made.

A hypothesis takes a mismatch and returns a sentence where it fits, or ``None``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import within
from autograd_course.doctor.comparing.mismatch import Mismatch, mismatches, return_line
from autograd_course.doctor.comparing.numbers import element, number, plain, unraveled
from autograd_course.doctor.evidence import Evidence, Expected
from autograd_course.doctor.rules import jacobians
from autograd_course.doctor.rules.labels import labeled
from autograd_course.doctor.rules.regions import edge
from autograd_course.doctor.rules.registry import Seen
from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.truth.differences import as_real


def undeclared_surrogate(m: Mismatch) -> str | None:
    """The forward is piecewise constant, so the true gradient is 0, and backward's is not."""
    e = m.evidence
    if e.surrogate or not e.jacobian or any(bool(c.matrix[:, c.smooth].any()) for c in e.jacobian):
        return None
    values = torch.cat([as_real(o).reshape(-1).double() for o in e.forward.outputs if is_float(o)])
    if values.unique().numel() < 2 and all(bool(c.smooth.all()) for c in e.jacobian):
        return None  # a constant function is no quantizer
    return (
        f"`forward` is piecewise constant, so the true gradient of `{m.name}` is zero, but "
        "`backward` returns a nonzero gradient. It looks like a straight-through estimator"
    )


def swapped_gradients(m: Mismatch) -> str | None:
    """The gradient of this input is what another input should get, and the other way round."""
    for other in mismatches(m.evidence):
        if m.fits(other.truth) and other.fits(m.truth):
            first, second = sorted((m, other), key=lambda one: one.slot)
            return f"the gradients of `{first.name}` and `{second.name}` are swapped"
    return None


def missing_gradient(m: Mismatch) -> str | None:
    """Nothing, or zeros, where the truth is not zero."""
    raw, depends = m.evidence.raw, "the output depends on"
    if m.evidence.surrogate:  # of the output itself zero may well be the true gradient
        depends = "the declared surrogate depends on"
    if raw and raw.kinds == ("NoneType",):
        return (
            f"`backward` returns None, but {depends} `{m.name}`. A return statement may be missing"
        )
    if not m.returned:
        return f"no gradient reaches `{m.name}`, but {depends} `{m.name}`"
    if not bool(m.actual.any()):
        return f"the gradient of `{m.name}` is zero everywhere, but {depends} `{m.name}`"
    return None


def extra_gradient(m: Mismatch) -> str | None:
    """Something where the output does not depend on the input, or is meant to hold it fixed."""
    e = m.evidence
    if bool(m.truth.nan_to_num().any()):
        return None
    if e.surrogate:
        return (
            f"`backward` returns a gradient for `{m.name}`, but the declared surrogate does not "
            f"depend on `{m.name}`"
        )
    # No Jacobian was needed where forward's slopes confirm what backward returns.
    if not e.jacobian or bool(e.jacobian[m.slot].matrix.any()):
        return (
            f"`backward` returns a gradient for `{m.name}`, but the reference treats `{m.name}` as "
            "a constant"
        )
    return (
        f"`backward` returns a gradient for `{m.name}`, but a small change of `{m.name}` does not "
        "change the output"
    )


def non_finite(m: Mismatch) -> str | None:
    """NaN or infinity where the true gradient is a number."""
    bad = m.known & ~torch.isfinite(m.actual)
    if not bool(bad.any()):
        return None
    value = "nan" if bool(torch.isnan(m.actual[bad]).any()) else "inf"
    return f"the gradient of `{m.name}` is {value} where the true gradient is finite"


def nan_at_a_kink(evidence: Evidence) -> Seen | None:
    """NaN where forward has a kink: no derivative is known there, but none of them is nan."""
    pull = evidence.pulls.get("random")
    outputs = (out for out in evidence.forward.outputs if is_float(out))
    if pull is None or pull.failure or not all(bool(out.isfinite().all()) for out in outputs):
        return None
    declared = evidence.reference_grads or [None] * len(evidence.wanted)
    rows = zip(evidence.wanted, pull.grads, evidence.jacobian, declared, strict=False)
    for position, grad, columns, known in rows:
        if grad is None or grad.is_complex():
            continue
        kinks = torch.zeros(grad.numel(), dtype=torch.bool, device=grad.device)
        kinks[columns.index[~columns.smooth].to(grad.device)] = True
        lost = grad.isnan() & kinks.view(grad.shape)
        if known is not None:
            lost &= known.isfinite()
        if bool(lost.any()):
            index = unraveled(int(lost.flatten().nonzero()[0]), lost.shape)
            name, value = evidence.name(position), evidence.inputs[position][index]
            return Seen(
                f"the gradient of `{name}` is nan at a kink of `forward`.",
                {
                    "inputs": [name],
                    "witness": f"{element(name, index)} = {number(plain(value))}: gradient nan",
                    "line": return_line(evidence.backward_source),
                },
            )
    return None


def flipped_sign(m: Mismatch) -> str | None:
    """Minus the truth."""
    return f"the gradient of `{m.name}` has the wrong sign everywhere" if m.fits(-m.truth) else None


def transposed_gradient(m: Mismatch) -> str | None:
    """The truth with its last two dims swapped, or the Jacobian where its transpose belongs."""
    if m.truth.dim() > 1 and m.fits(m.truth.mT):
        return f"the gradient of `{m.name}` is the true gradient with its last two dims swapped"
    told = permuted_gradient(m) or missing_conjugate(m)
    if told is None and m.fits(jacobians.untransposed(m)):
        return (
            f"the gradient of `{m.name}` is the Jacobian times `grad_output`. It should be the "
            "transpose of the Jacobian times `grad_output`"
        )
    return None


def missing_conjugate(m: Mismatch) -> str | None:
    """Right up to a complex conjugation of the truth or of the local derivative."""
    if not m.actual.is_complex():
        return None
    candidates = [m.truth.conj(), *_unconjugated(m), jacobians.unconjugated(m)]
    if not any(m.fits(candidate) for candidate in candidates):
        return None
    return (
        f"the gradient of `{m.name}` is right only for real values, because `backward` does not "
        "conjugate the local derivative"
    )


def _unconjugated(m: Mismatch) -> Iterator[Tensor]:
    """Yield the gradient of an element-wise holomorphic map with its conjugate forgotten."""
    (g, *others) = m.evidence.pulls["random"].grad_outputs
    if others or g is None or g.shape != m.truth.shape:
        return
    local = m.truth / g
    yield local.conj() * g


def missing_cross_terms(m: Mismatch) -> str | None:
    """Only the diagonal of the Jacobian is used."""
    e = m.evidence
    outputs = [o for o in e.forward.outputs if is_float(o)]
    g = e.pulls["random"].grad_outputs[0]
    if len(outputs) != 1 or g is None or outputs[0].shape != m.input.shape or g.is_complex():
        return None
    if not e.jacobian:
        return None
    columns = e.jacobian[m.slot]
    if columns.matrix.shape[0] != columns.matrix.shape[1]:
        return None  # only some columns were examined
    off_diagonal = columns.matrix - columns.matrix.diagonal().diag()
    if not bool((off_diagonal.abs() > 1e-6 * columns.matrix.abs().max()).any()):
        return None
    candidate = (columns.matrix.diagonal() * g.reshape(-1)).reshape(m.truth.shape)
    if not m.fits(candidate):
        return None
    return (
        f"the gradient of `{m.name}` uses only the diagonal of the Jacobian. Each element of "
        f"the output also depends on other elements of `{m.name}`, and those terms are missing"
    )


def duplicate_index(m: Mismatch) -> str | None:
    """Right for elements that are used once, wrong for those that are used again, or share."""
    if not bool(m.actual[m.wrong].any()):  # one term too few is not none
        return None
    again, index = jacobians.wrong_where_used_again(m), _repeating(m)
    if again and index:
        return (
            f"the gradient of `{m.name}` is right where `{index}` selects an element once, but "
            "wrong where it selects an element more than once"
        )
    if again and jacobians.one_term_kept(m):
        return (
            f"the gradient of `{m.name}` is right for elements that only one output uses. If "
            "several outputs use an element, its gradient is the sum of one term for each of them, "
            "but `backward` returns only one of these terms"
        )
    if index and jacobians.wrong_where_shared(m):
        return (
            f"the gradient of `{m.name}` is right for elements whose value in `{index}` is unique, "
            f"but wrong for elements that share the same value in `{index}`"
        )
    return None


def _repeating(m: Mismatch) -> str | None:
    """Return the name of an integer input in which a number occurs more than once."""
    for position, value in enumerate(m.evidence.inputs):
        whole = isinstance(value, Tensor) and not is_float(value) and value.dtype != torch.bool
        if whole and value.unique().numel() < value.numel():
            return m.evidence.name(position)
    return None


def off_by_one(m: Mismatch) -> str | None:
    """Right inside, wrong at one edge of a dim; not one that an argument names and that is 0."""
    if labeled(m) and not bool(m.actual[m.wrong].any()):
        return None
    where = edge(m.wrong, m.known)
    return f"the gradient of `{m.name}` is wrong only at {where}" if where else None


def permuted_gradient(m: Mismatch) -> str | None:
    """The right values in the wrong places."""
    if not bool(m.known.all()) or m.actual.is_complex() or m.truth.unique().numel() < 3:
        return None
    ordered = Expected(m.truth.flatten().sort().values, m.expected.tolerance.max())
    if not bool(within(m.actual.flatten().sort().values, ordered).all()):
        return None
    return f"the gradient of `{m.name}` has the right values at the wrong positions"
