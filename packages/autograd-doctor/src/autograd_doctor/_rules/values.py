"""Rules about the values of gradients.

The first hypothesis that fits an incorrect gradient explains it.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import identical, size, within
from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.mismatch import Mismatch, mismatches, return_line, witness
from autograd_doctor._numerics.projection import flat_cotangent
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._rules.regions import (
    common_factor,
    edge,
    fills_slice,
    labeled,
    region,
    selected,
    slice_of,
    slices_with,
)
from autograd_doctor._rules.rule import (
    UNUSABLE,
    Decide,
    Match,
    Rule,
    comparisons,
    describe_disagreement,
    disagreement,
    furthest,
    ordinal,
    raw_transpose,
    rule,
)
from autograd_doctor._rules.terms import (
    ROUNDING,
    constant_factor,
    digits,
    factors_by_slice,
    missing_dependency,
    without_argument,
    wrong_factor,
)
from autograd_doctor.evidence import RANDOM, Cotangent, Evidence, Expected
from autograd_doctor.formatting import (
    element,
    elements,
    listed,
    number,
    paragraph,
    plain,
    quoted,
    unraveled,
)

# --------------------------------------------------------------------------------------------------
# Test whether backward forgets to transpose or conjugate the Jacobian, or uses only part of it.
# --------------------------------------------------------------------------------------------------

FEWEST = 6  # with fewer incorrect elements, a hypothesis may match by chance
# relative to the largest entry; smaller entries are rounding errors of finite differences
NEGLIGIBLE = 1e-9


def untransposed(m: Mismatch) -> Tensor | None:
    """Return the Jacobian times ``grad_output``. A correct ``backward`` uses the transpose."""
    matrix, g = _jacobian(m), _one_grad_output(m)
    if matrix is None or g is None or g.shape != m.input.shape:
        return None
    if g.is_complex() != m.input.is_complex():
        return None
    real = as_real(g)
    pushed = (matrix @ real.reshape(-1)).reshape(real.shape)
    return torch.view_as_complex(pushed) if g.is_complex() else pushed


def unconjugated(m: Mismatch) -> Tensor | None:
    """Return the transposed, but not conjugated, complex Jacobian times ``grad_output``.

    Return ``None`` if ``forward`` is not holomorphic.
    """
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
    """Return whether the gradient is incorrect only for elements that affect several outputs.

    At least one other element must affect only one output.
    """
    reach = _reach(m)
    return reach is not None and _splits(m, reach.sum(0))


def wrong_where_shared(m: Mismatch) -> bool:
    """Return whether the gradient is incorrect only for elements that share an output with others.

    At least one other element must not share an output.
    """
    reach = _reach(m)
    return reach is not None and _splits(m, (reach * reach.sum(1, keepdim=True)).amax(0))


def all_used_again(m: Mismatch) -> bool:
    """Return whether all elements affect several outputs and at least ``FEWEST`` are incorrect."""
    reach = _reach(m)
    return reach is not None and bool((reach.sum(0) > 1).all()) and int(m.wrong.sum()) >= FEWEST


def one_term_kept(m: Mismatch) -> bool:
    """Return whether each incorrect element equals a single term of its expected gradient."""
    matrix, g = _jacobian(m), _one_grad_output(m)
    if matrix is None or g is None or g.is_complex():
        return False
    wrong = m.wrong.reshape(-1)
    terms = (matrix * g.reshape(-1, 1))[:, wrong]
    tolerance = m.expected.tolerance.reshape(-1)[wrong]
    hits = ((terms - m.actual.reshape(-1)[wrong]).abs() <= tolerance) & (terms != 0)
    return bool(hits.any(0).all())


def _splits(m: Mismatch, count: Tensor) -> bool:
    """Return whether every incorrect element has a count above 1.

    At least one correct element must have a count of 1.
    """
    count, wrong, known = count.reshape(m.wrong.shape), m.wrong, m.known
    once = (count == 1) & known
    return bool(once.any()) and not bool((wrong & (count < 2)).any())


def _reach(m: Mismatch) -> Tensor | None:
    """Return a 0/1 matrix that shows which outputs (rows) depend on which inputs (columns)."""
    matrix = None if m.input.is_complex() else _jacobian(m)
    if matrix is None or not matrix.numel():
        return None
    return (matrix.abs() > NEGLIGIBLE * matrix.abs().max()).long()


def part_of_output_at_fault(m: Mismatch) -> str:
    """Name the slice of the output that contributes an incorrect part to the gradient.

    Return ``""`` if every slice contributes an incorrect part, or if the slice is unknown.
    """
    matrix, rows = _jacobian(m), m.evidence.values.rows
    outputs = [out for out in m.evidence.forward.outputs if is_float(out)]
    if matrix is None or rows is None or len(outputs) != 1 or outputs[0].is_complex():
        return ""
    if m.coarse or len(rows.index) != outputs[0].numel() or m.input.is_complex():
        return ""
    off = (rows.matrices[m.slot] - matrix).abs()
    wrong = (off > 1e-5 * matrix.abs().max()).any(1).view(outputs[0].shape)
    right = ~wrong & (matrix != 0).any(1).view(wrong.shape)
    return slice_of(wrong, right, "output").removeprefix("at ") if bool(wrong.any()) else ""


def _jacobian(m: Mismatch) -> Tensor | None:
    """Return the Jacobian with respect to this input, or ``None`` if it is not completely known."""
    if not m.evidence.values.jacobian or m.evidence.values.surrogate:
        return None
    matrix = m.evidence.values.jacobian[m.slot].matrix
    whole = matrix.shape[1] == as_real(m.input).numel() and bool(torch.isfinite(matrix).all())
    return matrix if whole else None


def _one_grad_output(m: Mismatch) -> Tensor | None:
    """Return the cotangent in double precision if there is only one floating-point output."""
    outputs = [output for output in m.evidence.forward.outputs if is_float(output)]
    g = m.evidence.values.vjps[RANDOM].grad_outputs[0] if len(outputs) == 1 else None
    return None if g is None else g.to(torch.complex128 if g.is_complex() else torch.float64)


# --------------------------------------------------------------------------------------------------
# Test whether backward confuses the batch dim, or the dim that an argument selects, with another.
# --------------------------------------------------------------------------------------------------


def wrong_dim(m: Mismatch) -> str | None:
    """Test whether the incorrect gradient would be correct for another dim."""
    how = _right_when(m, "dim-argument")
    return how and f"the gradient of `{m.name}` is wrong for this call, but right {how}"


def wrong_batch(m: Mismatch) -> str | None:
    """Test whether the incorrect gradient would be correct for each slice along dim 0."""
    how = _right_when(m, "batch")
    return how and f"the gradient of `{m.name}` is wrong for the whole batch, but right {how}"


def _right_when(m: Mismatch, kind: str) -> str | None:
    """Describe the variant of the call for which ``backward`` returns the correct gradient."""
    name = m.evidence.gradient_name(m.position)
    for comparison in comparisons(m.evidence, kind):
        actual = dict(zip(comparison.names, comparison.actual, strict=True)).get(name)
        if actual is None or actual.shape != m.truth.shape:
            continue
        if bool(within(actual, m.expected)[m.known].all()):
            return comparison.how
    return None


def other_dim(evidence: Evidence) -> Match | None:
    """Report a gradient that is correct for the example but incorrect for another dim."""
    return None if mismatches(evidence) else disagreement(evidence, "dim-argument")


def other_batch(evidence: Evidence) -> Match | None:
    """Report a gradient that is correct for the example but not for a slice or a longer batch.

    Do not check a declared surrogate, because it may mix slices that ``forward`` keeps separate.
    """
    if mismatches(evidence) or evidence.values.surrogate:
        return None
    return disagreement(evidence, "batch") or _grown(evidence)


def _grown(evidence: Evidence) -> Match | None:
    comparison = next(comparisons(evidence, "grown"), None)
    seen, place = (
        (describe_disagreement(comparison), furthest(comparison)) if comparison else (None, None)
    )
    if comparison is None or seen is None or place is None:
        return seen
    name = comparison.names[place[0]]
    return replace(
        seen, message=f"{name} {comparison.how} differs from the one computed slice by slice."
    )


# --------------------------------------------------------------------------------------------------
# Hypotheses about an incorrect gradient. Each hypothesis predicts the result of one mistake.
#
# A hypothesis is a function that takes a mismatch. It returns a sentence if it fits the mismatch,
# and ``None`` otherwise.
# --------------------------------------------------------------------------------------------------


def undeclared_surrogate(m: Mismatch) -> str | None:
    """Test whether the gradient is nonzero even though ``forward`` is piecewise constant."""
    e = m.evidence
    if e.values.surrogate or not e.values.jacobian:
        return None
    jumps = m.slot in e.values.piecewise
    if not jumps and any(bool(c.matrix[:, c.smooth].any()) for c in e.values.jacobian):
        return None
    values = torch.cat([as_real(o).reshape(-1).double() for o in e.forward.outputs if is_float(o)])
    smooth = all(bool(c.smooth.all()) for c in e.values.jacobian)
    if not jumps and smooth and values.unique().numel() < 2:
        return None  # a constant function is not a quantizer
    return (
        f"`forward` is piecewise constant, so the true gradient of `{m.name}` is zero, but "
        "`backward` returns a nonzero gradient. It looks like a straight-through estimator"
    )


def swapped_gradients(m: Mismatch) -> str | None:
    """Test whether the gradients of this input and another input are swapped."""
    others = mismatches(m.evidence)
    for other in others:
        if m.fits(other.truth) and other.fits(m.truth):
            first, second = sorted((m, other), key=lambda one: one.slot)
            return f"the gradients of `{first.name}` and `{second.name}` are swapped"
    owners = {one.name: [it.name for it in others if one.fits(it.truth)] for one in others}
    if len(others) > 2 and all(owners.values()) and m.name not in owners[m.name]:
        return f"`{m.name}` receives the gradient of `{owners[m.name][0]}`"
    return None


def missing_gradient(m: Mismatch) -> str | None:
    """Test whether the gradient is missing or zero even though the expected gradient is nonzero."""
    raw, depends = m.evidence.contract.direct, "the output depends on"
    if m.evidence.values.surrogate:  # the true gradient of the output may be zero
        depends = "the declared surrogate depends on"
    if raw and raw.kinds == ("NoneType",):
        return (
            f"`backward` returns None, but {depends} `{m.name}`. A return statement may be missing"
        )
    if not m.returned:
        return f"no gradient reaches `{m.name}`, but {depends} `{m.name}`"
    is_finite = bool(m.actual.isfinite().all())
    if is_finite and size(m.actual) <= ROUNDING * size(m.truth[m.known]):
        return f"the gradient of `{m.name}` is zero everywhere, but {depends} `{m.name}`"
    return None


def extra_gradient(m: Mismatch) -> str | None:
    """Test whether ``backward`` returns a gradient for an input that does not affect the output."""
    e = m.evidence
    if bool(m.truth.nan_to_num().any()):
        return None
    if e.values.surrogate:
        return (
            f"`backward` returns a gradient for `{m.name}`, but the declared surrogate does not "
            f"depend on `{m.name}`"
        )
    # If the slopes of forward confirmed the gradient, the doctor did not compute a Jacobian.
    if not e.values.jacobian or bool(e.values.jacobian[m.slot].matrix.any()):
        return (
            f"`backward` returns a gradient for `{m.name}`, but the reference treats `{m.name}` as "
            "a constant"
        )
    return (
        f"`backward` returns a gradient for `{m.name}`, but a small change in `{m.name}` does not "
        "change the output"
    )


def non_finite(m: Mismatch) -> str | None:
    """Test whether the gradient is nan or infinite where the expected gradient is finite."""
    bad = m.known & ~torch.isfinite(m.actual)
    if not bool(bad.any()):
        return None
    value = "nan" if bool(torch.isnan(m.actual[bad]).any()) else "inf"
    return f"the gradient of `{m.name}` is {value} where the true gradient is finite"


HINT_AT_NAN = (
    "This line gets the first nan. Look for 0/0, inf·0, a logarithm of 0, or the root or logarithm "
    "of a negative number in it."
)


def _nan_line(evidence: Evidence) -> str:
    return evidence.contract.direct.nan_line if evidence.contract.direct else ""


def _hint_at_nan(evidence: Evidence, limit: bool = False) -> str:
    """Return a hint about the line that produces a nan.

    If ``limit`` is true, the true gradient is not 0 where the nan occurs, so a mask would give a
    wrong value.
    """
    direct = evidence.contract.direct
    if direct is None or not direct.nan_cause:
        return HINT_AT_NAN
    if direct.nan_cause == "nan":
        return (
            "This line uses a nan that `forward` saved. The product of nan and 0 is nan, so a mask "
            "does not remove it. Select another value with `torch.where` or `masked_fill`."
        )
    if limit and direct.nan_cause == "0 / 0":
        return (
            "This line gets the first nan, because it computes 0 / 0. The gradient is not 0 there, "
            "so do not mask it. Write the formula in a form that does not divide by 0."
        )
    return (
        f"This line gets the first nan, because it computes {direct.nan_cause}. Before the "
        "operation, replace the operand there, for example with `torch.where` or `masked_fill`."
    )


def nan_at_a_kink(evidence: Evidence) -> Match | None:
    """Report a gradient that is nan at a kink of ``forward``. No convention allows nan there."""
    vjp = evidence.values.vjps.get(RANDOM)
    outputs = (out for out in evidence.forward.outputs if is_float(out))
    if vjp is None or vjp.failure or not all(bool(out.isfinite().all()) for out in outputs):
        return None
    declared = evidence.values.reference_grads or [None] * len(evidence.wanted)
    rows = zip(evidence.wanted, vjp.grads, evidence.values.jacobian, declared, strict=False)
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
            line = _nan_line(evidence)
            return Match(
                f"the gradient of `{name}` is nan at a kink of `forward`.",
                {
                    "inputs": [name],
                    "witness": f"{element(name, index)} = {number(plain(value))}: gradient nan",
                    "line": line or return_line(evidence.contract.backward_source),
                },
                hint=_hint_at_nan(evidence) if line else "",
            )
    return None


# relative to the largest gradient; if two tied elements both get all of it, the error is 1
MORE_THAN_ROUNDING = 0.1
SHARE = (
    "If equal elements share a maximum, divide the gradient by their number, or give it to only "
    "one of them."
)


def wrong_at_ties(evidence: Evidence) -> Match | None:
    """Report equal elements whose gradients have an incorrect sum.

    The sum must equal the derivative along the direction in which these elements change together.
    Every convention for ties satisfies this condition.
    """
    vjp, ties = evidence.values.vjps.get(RANDOM), evidence.values.ties
    if vjp is None or vjp.failure or ties is None or evidence.values.surrogate:
        return None
    if mismatches(evidence) or evidence.values.inexact:
        return None
    g = flat_cotangent(evidence, vjp.grad_outputs)
    expected, tolerance = ties.matrix.T @ g, 3 * (ties.error.T @ g.abs())
    declared = evidence.values.reference_grads
    for k in range(len(ties.smooth)):
        tied = [vectors[:, k].nonzero().reshape(-1) for vectors in ties.vectors]
        scale = max(float(vectors[:, k].max()) for vectors in ties.vectors)
        signs = _at([vectors[:, k] for vectors in ties.vectors], tied).sign()
        gradients = signs * _at(vjp.grads, tied)
        right, actual = float(expected[k]) / scale, float(gradients.sum())
        least = float(tolerance[k]) / scale + MORE_THAN_ROUNDING * size(gradients) + 1e-12
        if not ties.smooth[k] or not abs(actual - right) > least:  # also if one of them is nan
            continue
        if declared is None or abs(float((signs * _at(declared, tied)).sum()) - actual) > least:
            of_both_signs = bool((signs < 0).any())
            return _told_of_ties(evidence, tied, actual, right, of_both_signs=of_both_signs)
    return None


def _told_of_ties(
    evidence: Evidence,
    tied: Sequence[Tensor],
    actual: float,
    right: float,
    *,
    of_both_signs: bool,
) -> Match:
    """Return a match for elements that are equal, or that differ only in their signs.

    ``tied`` holds their flat positions in the wanted inputs.
    """
    named = [
        (evidence.name(position), evidence.inputs[position], places)
        for position, places in zip(evidence.wanted, tied, strict=True)
        if len(places)
    ]
    at = [
        element(name, unraveled(int(place), value.shape))
        for name, value, places in named
        for place in places[:2]
    ]
    _, value, places = named[0]
    numbers = value.reshape(-1)[places]
    names = [name for name, _, _ in named]
    several = len(names) > 1
    if of_both_signs:
        size_ = number(plain(numbers[0].abs()))
        where = "have the same magnitude. If these elements grow together"
        wrong = "the derivative in this direction is wrong"
        seen = f"elements of magnitude {size_}, which all grow: the derivative is"
    else:
        where = "are equal. If these elements change together"
        wrong = "the sum of their gradients is wrong"
        seen = f"{at[0]} = {at[-1]} = {number(plain(numbers[0]))}: their gradients add up to"
    return Match(
        f"the gradient{'s' * several} of {listed(quoted(names))} {'are' if several else 'is'} "
        f"wrong where elements {where}, `forward` is differentiable, but {wrong}.",
        {
            "inputs": names,
            "witness": f"{seen} {number(actual)}, should be {number(right)}",
            "line": return_line(evidence.contract.backward_source),
        },
        hint=SHARE,
    )


def _at(grads: Sequence[Tensor | None], places: Sequence[Tensor]) -> Tensor:
    """Return the gradients' elements at flat positions. A missing gradient counts as zeros."""
    return torch.cat(
        [
            torch.zeros(len(at), dtype=torch.float64)
            if grad is None
            else grad.reshape(-1)[at.to(grad.device)].double().cpu()
            for grad, at in zip(grads, places, strict=True)
        ]
    )


def flipped_sign(m: Mismatch) -> str | None:
    """Test whether the gradient and the expected gradient have opposite signs."""
    return f"the gradient of `{m.name}` has the wrong sign everywhere" if m.fits(-m.truth) else None


def transposed_gradient(m: Mismatch) -> str | None:
    """Test whether the gradient has its last two dims swapped, or misses a transpose."""
    if m.truth.dim() > 1 and m.fits(m.truth.mT):
        return f"the gradient of `{m.name}` is the true gradient with its last two dims swapped"
    told = permuted_gradient(m) or missing_conjugate(m)
    if told is None and m.fits(untransposed(m)):
        return (
            f"the gradient of `{m.name}` is the Jacobian times `grad_output`. It should be the "
            "transpose of the Jacobian times `grad_output`"
        )
    return None


def missing_conjugate(m: Mismatch) -> str | None:
    """Test whether a conjugate is missing, or whether the whole gradient is conjugated."""
    if not m.actual.is_complex():
        return None
    candidates = [m.truth.conj(), *_unconjugated(m), unconjugated(m)]
    if not any(m.fits(candidate) for candidate in candidates):
        return None
    return (
        f"the gradient of `{m.name}` is right only for real values: in `backward`, a complex "
        "conjugate is missing, or one is too many"
    )


def _unconjugated(m: Mismatch) -> Iterator[Tensor]:
    """Yield the gradient without the conjugate, assuming an elementwise holomorphic function."""
    (g, *others) = m.evidence.values.vjps[RANDOM].grad_outputs
    if others or g is None or g.shape != m.truth.shape:
        return
    local = m.truth / g
    yield local.conj() * g


def missing_cross_terms(m: Mismatch) -> str | None:
    """Test whether ``backward`` uses only the diagonal of the Jacobian."""
    e = m.evidence
    outputs = [o for o in e.forward.outputs if is_float(o)]
    g = e.values.vjps[RANDOM].grad_outputs[0]
    if len(outputs) != 1 or g is None or outputs[0].shape != m.input.shape or g.is_complex():
        return None
    if not e.values.jacobian:
        return None
    columns = e.values.jacobian[m.slot]
    if columns.matrix.shape[0] != columns.matrix.shape[1]:
        return None  # some columns were not computed
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
    """Test whether the gradient is incorrect only for elements that are used more than once."""
    if not bool(m.actual[m.wrong].any()):  # the gradient is zero, so more than one term is missing
        return None
    again, index = wrong_where_used_again(m), _repeating(m)
    if not again and (name := _selects_wrong_ones_again(m)) and one_term_kept(m):
        return (
            f"`{name}` selects some elements of `{m.name}` more than once. The gradient of such an "
            "element is a sum with one term per use, but `backward` returns only one of these terms"
        )
    if not again and wrong_batch(m) is None and all_used_again(m) and one_term_kept(m):
        return (
            f"several outputs use each element of `{m.name}`. Its gradient is a sum with one term "
            "per output, but `backward` returns only one of these terms"
        )
    if again and index:
        return (
            f"the gradient of `{m.name}` is right where `{index}` selects an element once, but "
            "wrong where it selects an element more than once"
        )
    if again and one_term_kept(m):
        return (
            f"the gradient of `{m.name}` is right for elements that only one output uses. If "
            "several outputs use an element, its gradient is a sum with one term per output, but "
            "`backward` returns only one of these terms"
        )
    if index and wrong_where_shared(m):
        return (
            f"the gradient of `{m.name}` is right for elements whose value in `{index}` is unique, "
            f"but wrong for elements that share the same value in `{index}`"
        )
    return None


def _repeating(m: Mismatch) -> str | None:
    """Return the name of an integer input that contains the same number more than once."""
    return next((name for name, _ in _repeated(m)), None)


def _selects_wrong_ones_again(m: Mismatch) -> str | None:
    """Return the name of an integer input whose repeated numbers are the incorrect indices."""
    wrong = [slices_with(m.wrong, axis) for axis in range(m.wrong.dim())]
    return next((name for name, again in _repeated(m) if again in wrong), None)


def _repeated(m: Mismatch) -> Iterator[tuple[str, set[int]]]:
    """Yield each integer input that contains numbers more than once, with these numbers."""
    for position, value in enumerate(m.evidence.inputs):
        if isinstance(value, Tensor) and not is_float(value) and value.dtype != torch.bool:
            values, counts = value.unique(return_counts=True)
            if again := set(values[counts > 1].tolist()):
                yield m.evidence.name(position), again


def off_by_one(m: Mismatch) -> str | None:
    """Test whether the gradient is incorrect only at the edge of a dim.

    The hypothesis does not fit if an argument selects this edge.
    """
    if labeled(m):
        return None
    where = edge(m.wrong, m.known)
    return f"the gradient of `{m.name}` is wrong only at {where}" if where else None


def permuted_gradient(m: Mismatch) -> str | None:
    """Test whether the gradient has the correct values at the wrong positions."""
    if not bool(m.known.all()) or m.actual.is_complex() or m.truth.unique().numel() < 3:
        return None
    ordered = Expected(m.truth.flatten().sort().values, m.expected.tolerance.max())
    if not bool(within(m.actual.flatten().sort().values, ordered).all()):
        return None
    return f"the gradient of `{m.name}` has the right values at the wrong positions"


# --------------------------------------------------------------------------------------------------
# Find mismatches that may be intentional. The report explains how to declare them.
# --------------------------------------------------------------------------------------------------


def perhaps_meant(rule: str, wrong: Sequence[Mismatch]) -> dict[str, Any]:
    """Return evidence that the mismatches explained by one rule may be intentional."""
    return dict(_found(rule, wrong))


def _found(rule: str, wrong: Sequence[Mismatch]) -> Iterator[tuple[str, Any]]:
    without = [m.name for m in wrong if not m.returned]
    if without and len(without) < len(wrong[0].evidence.wanted):
        yield "without_gradient", without  # these inputs may be data
    if held := [m.name for m in wrong if _held_fixed(m)]:
        yield "held_fixed", held
    if rule == "constant-factor" and all(map(_returned, wrong)):
        yield "acts_on_the_gradient_alone", True  # a gradient reversal or a scale
    if all(map(_passes_through, wrong)):
        yield "passes_grad_output", True  # a straight-through estimator
    e = wrong[0].evidence
    declared = e.values.surrogate or e.values.reference_outputs is not None
    if e.contract.stated_design and not declared and rule != "undeclared-surrogate":
        yield "stated_design", e.contract.stated_design


def _held_fixed(m: Mismatch) -> bool:
    """Return whether all incorrect elements are 0 and an argument selects them.

    Such an argument can be a padding index.
    """
    return bool(m.actual.any()) and not bool(m.actual[m.wrong].any()) and labeled(m) is not None


def _passes_through(m: Mismatch) -> bool:
    """Return whether each element of the gradient is 0 or the same as that of ``grad_output``."""
    g = _one_grad_output(m)
    if g is None or g.shape != m.actual.shape:
        return False
    passed = m.actual == g.to(m.actual.dtype)
    return bool(passed.any()) and bool((passed | (m.actual == 0)).all())


def _returned(m: Mismatch) -> bool:
    """Return whether an output equals this input.

    Return ``False`` if the input contains only zeros and ones.
    """
    if bool(((m.input == 0) | (m.input == 1)).all()):
        return False
    return any(identical(output, m.input) for output in m.evidence.forward.outputs)


# --------------------------------------------------------------------------------------------------
# Rules about values. Each rule describes how an incorrect gradient relates to the expected one.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hypothesis:
    """A hypothesis about a mistake in ``backward``, and the rule that reports the mistake.

    ``fits`` tests the hypothesis on one incorrect gradient. If the hypothesis fits no gradient, the
    rule calls ``otherwise``.
    """

    rule: str
    title: str
    fits: Callable[[Mismatch], str | None]
    hint: str
    lesson: str
    otherwise: Decide = lambda evidence: None


def _unexplained(m: Mismatch) -> str:
    single = m.known.numel() == 1
    where = "" if single else f" at {elements(int(m.wrong.sum()), int(m.known.sum()))}"
    sample = "" if bool(m.known.all()) else " that were checked"
    off = f"the gradient of `{m.name}` is wrong{where}{sample}"
    if not m.coarse:
        in_slice = slice_of(m.wrong, m.known & ~m.wrong & (m.truth != 0), m.name)
        if place := in_slice or selected(m):
            within_it = "all of them" if in_slice and not fills_slice(m.wrong) else "namely"
            off += f", {within_it} {place}{_factor_there(m)}"
        elif factors := _factors_by_label(m):
            off += f". {factors}"
        elif factor := wrong_factor(m):
            off += f". It is {factor}"
        elif factors := factors_by_slice(m):
            off += f". {factors}"
        elif by_choice := _error_by_selection(m):
            off += f". {by_choice}"
        elif part := part_of_output_at_fault(m):
            off += f". Its error comes only from the elements {part} of the output"
        off += without_argument(m)
    names = [name for name in m.evidence.values.vjps if name.kind == "single"]
    wrong = [n for n in names if m.slot in {other.slot for other in mismatches(m.evidence, n)}]
    if m.coarse:
        return f"{off}. The true gradient is not known precisely enough to say why"
    if not wrong or wrong == names:
        return off
    through, output = listed([*map(ordinal, wrong)], len(wrong)), "output" + "s" * (len(wrong) > 1)
    part = _factor_of_part(m, wrong[0]) if len(wrong) == 1 else ""
    return f"{off}. Its error comes only from the {through} {output}{part}"


def _factor_of_part(m: Mismatch, output: Cotangent) -> str:
    """Describe the factor by which one output's contribution to a gradient is off."""
    sent = next(other for other in mismatches(m.evidence, output) if other.slot == m.slot)
    many = not sent.actual.is_complex() and int(sent.wrong.sum()) > 1
    factor = common_factor((sent.actual / sent.truth)[sent.wrong]) if many else None
    if not factor:
        return ""
    told = (
        "has the wrong sign"
        if abs(factor + 1) < 1e-4
        else f"is {number(factor)} times the true one"
    )
    return f", whose part of the gradient {told}"


def _factors_by_label(m: Mismatch) -> str:
    """Describe a factor in the gradient that depends on the values of an integer argument."""
    if m.actual.is_complex() or not bool(m.known.all()):
        return ""
    ratio = m.actual / m.truth
    for position, label in enumerate(m.evidence.inputs):
        if not isinstance(label, Tensor) or label.dtype not in (torch.int64, torch.int32):
            continue
        if not 0 < label.dim() <= ratio.dim() or label.shape != ratio.shape[: label.dim()]:
            continue
        values = label.unique().tolist()
        groups = [ratio[label == value].flatten() for value in values]
        factors = [f for f in map(common_factor, groups) if f is not None]
        known = len(factors) == len(values) < label.numel()
        if known and len(set(map(number, factors))) > 1:
            parts = [f"{number(f)} where it is {v}" for f, v in zip(factors, values, strict=True)]
            return (
                f"It is the true gradient times a factor that depends on "
                f"`{m.evidence.name(position)}`: {listed(parts)}{_by_count(label, factors)}"
            )
    return ""


def _by_count(label: Tensor, factors: Sequence[float]) -> str:
    """Describe a factor that depends only on how often each value of a label occurs."""
    counts = label.unique(return_counts=True)[1].double().cpu()
    for power, how in ((1, "times"), (-1, "divided by")):
        one = common_factor(torch.tensor(factors, dtype=torch.float64) / counts**power)
        if one is not None and counts.unique().numel() > 1:
            return f". The factor is {digits(one)} {how} the number of times that the value occurs"
    return ""


def _error_by_selection(m: Mismatch) -> str:
    """Describe an error that is ``grad_output`` times one factor at selected elements.

    An index argument selects the elements. At all other elements, the error is ``grad_output``
    times a different factor. Ignore rows without a selected element.
    """
    (g, *others) = m.evidence.values.vjps[RANDOM].grad_outputs
    if others or g is None or g.is_complex() or m.actual.is_complex() or not bool(m.known.all()):
        return ""
    for position, index in enumerate(m.evidence.inputs):
        if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
            continue
        for dim, length in enumerate(m.input.shape):
            rest = (*m.input.shape[:dim], *m.input.shape[dim + 1 :])
            if rest != index.shape or g.shape not in (index.shape, torch.Size()):
                continue
            chosen = (index >= 0) & (index < length)
            holds = torch.zeros_like(m.input, dtype=torch.bool)
            holds.scatter_(dim, index.long().clamp(0, length - 1).unsqueeze(dim), True)
            upstream = g if g.dim() == 0 else g.unsqueeze(dim)
            off = ((m.actual - m.truth) / upstream).movedim(dim, -1)[chosen]
            there = holds.movedim(dim, -1)[chosen]
            parts = [_common_number(off[there], off), _common_number(off[~there], off)]
            if off.numel() >= 6 and length > 2 and None not in parts:
                here, elsewhere = (number(part or 0.0) for part in parts)
                return (
                    f"The error is `{here} · grad_output` at each element that "
                    f"`{m.evidence.name(position)}` selects along dim {dim}, and `{elsewhere} · "
                    "grad_output` at each other element. Look at the numbers that `backward` uses "
                    "for the selected element and for the others"
                )
    return ""


def _common_number(values: Tensor, among: Tensor) -> float | None:
    """Return the common value of ``values``, or ``None`` if they differ.

    The tolerance is relative to the largest number in ``among``.
    """
    if values.numel() < 2 or not bool(among.isfinite().all()):
        return None
    mean = values.mean()
    return float(mean) if bool(((values - mean).abs() <= 1e-5 * among.abs().max()).all()) else None


def _factor_there(m: Mismatch) -> str:
    """Describe the common factor of the incorrect elements, or return ``""`` if there is none."""
    factor = common_factor((m.actual / m.truth)[m.wrong]) if int(m.wrong.sum()) > 1 else None
    if factor is None:
        return ""
    return (
        f", where it is {number(factor)} times the true gradient"
        if factor
        else ", where it is zero"
    )


HYPOTHESES = (
    Hypothesis(
        "dim-argument",
        "the gradient is right along one dim and wrong along another",
        wrong_dim,
        "Use the dim that the call passes. Look in `backward` for a fixed dim (-1, 0, shape[-1], a "
        "transpose) and for code that does not handle negative dims.",
        "03_gradient_patterns",
        other_dim,
    ),
    Hypothesis(
        "undeclared-surrogate",
        "forward is piecewise constant, backward is not zero",
        undeclared_surrogate,
        "Either return zeros (the true gradient of a step function) or declare the surrogate "
        "gradient that you intend.",
        "05_straight_through",
    ),
    Hypothesis(
        "swapped-gradients",
        "two gradients are swapped",
        swapped_gradients,
        "Return the gradients in the order of the arguments of `forward`.",
        "01_template",
    ),
    Hypothesis(
        "missing-gradient",
        "a gradient is missing",
        missing_gradient,
        "Return the gradient of this argument. If `backward` computes one, look for a factor that "
        "is always 0, for terms that cancel, or for a condition that is never true, such as the "
        "wrong entry of `ctx.needs_input_grad`. Return None only for an input that needs no "
        "gradient.",
        "01_template",
    ),
    Hypothesis(
        "extra-gradient",
        "an input gets a gradient but should get none",
        extra_gradient,
        "Return None for an input that does not affect the output or that is treated as a "
        "constant. If the input should affect the output, correct `forward` instead.",
        "01_template",
    ),
    Hypothesis(
        "non-finite",
        "backward returns nan or inf",
        non_finite,
        "Look for 0/0, inf·0, a logarithm of 0, or the root or logarithm of a negative number in "
        "the formula at this element.",
        "04_debugging_clinic",
        nan_at_a_kink,
    ),
    Hypothesis(
        "flipped-sign",
        "the sign is flipped",
        flipped_sign,
        "Derive the gradient by hand for a single number, and compare the signs.",
        "01_template",
    ),
    Hypothesis(
        "constant-factor",
        "the gradient is off by a constant factor",
        constant_factor,
        "Compare the constants in `forward` and `backward` (an exponent, the 1/N of a mean, a "
        "scale, an inner derivative). One of them is missing from `backward`, occurs there "
        "twice, or has another value there.",
        "01_template",
    ),
    Hypothesis(
        "transposed-gradient",
        "the gradient is transposed",
        transposed_gradient,
        "Check the order of the factors and the transposes: for Y = A B with `grad_output` G, the "
        "gradients are G Bᵀ for A and Aᵀ G for B. For a loop or a running sum, go in the opposite "
        "direction. For a rotation, use the opposite angle.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "missing-conjugate",
        "the complex conjugate is missing",
        missing_conjugate,
        "Conjugate the local derivative: for a holomorphic f, PyTorch's gradient is `grad_output` "
        "times the conjugate of f'. For a real result such as |z|², the gradient is "
        "`2 * z * grad_output`, without a conjugate.",
        "09_more_patterns",
    ),
    Hypothesis(
        "missing-cross-terms",
        "backward uses only the diagonal of the Jacobian",
        missing_cross_terms,
        "Sum over all outputs that depend on an input: each of them adds a term to its gradient.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "duplicate-index",
        "the gradient is wrong where an index repeats",
        duplicate_index,
        "The gradients of all uses of an element add up. For an index that repeats, use "
        "`index_add_` or `scatter_add_`: `grad[index] += g` adds only one of them.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "off-by-one",
        "the gradient is wrong at an edge",
        off_by_one,
        "Compare the first and last index of every range, padding and window in `backward` with "
        "those in `forward`.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "wrong-region",
        "the gradient is wrong for some input values",
        region,
        "Check which branch of `forward` this input takes. Compare the condition of this branch in "
        "`backward`, and the formula for it, with those in `forward`.",
        "01_template",
        wrong_at_ties,
    ),
    Hypothesis(
        "batch-dimension",
        "a batch and its slices give different gradients",
        wrong_batch,
        "Check every sum, mean, index and squeeze in `backward`. Each slice along dim 0 must get "
        "its own gradient, and an input that the slices share must get the sum of their "
        "gradients.",
        "03_gradient_patterns",
        other_batch,
    ),
    Hypothesis(
        "missing-dependency",
        "backward treats a dependency as a constant",
        missing_dependency,
        "Write `forward` as a chain of steps, and find every path from this input to the output. "
        "Each path adds one term to the gradient.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "permuted-gradient",
        "the gradient has the right values at the wrong positions",
        permuted_gradient,
        "Undo the reordering of `forward` in `backward`: apply the inverse permutation, not the "
        "same permutation again. If `forward` reads at indices, compare them with the indices at "
        "which `backward` writes.",
        "03_gradient_patterns",
    ),
    Hypothesis(
        "gradient-mismatch",
        "the gradient is wrong, without a simple pattern",
        _unexplained,
        "Check one element by hand: derive the formula, substitute these numbers, and compare.",
        "04_debugging_clinic",
    ),
)


# These rules use the locations of incorrect elements. The doctor skips them if it knows only a few
# digits of the expected gradient, because small elements then count as correct.
BY_PLACE = (
    "dim-argument",
    "duplicate-index",
    "off-by-one",
    "batch-dimension",
    "permuted-gradient",
)

_EXPLAINED: WeakKeyDictionary[Evidence, dict[str, Match]] = WeakKeyDictionary()


def explain(evidence: Evidence) -> dict[str, Match]:
    """Return the matches of the value rules by rule name. Cache them for each ``Evidence``."""
    if evidence not in _EXPLAINED:
        _EXPLAINED[evidence] = _explained(evidence)
    return _EXPLAINED[evidence]


def _explained(evidence: Evidence) -> dict[str, Match]:
    """Find the first hypothesis that fits each incorrect gradient. Group the gradients by rule."""
    found: dict[str, list[tuple[Mismatch, str]]] = {}
    for m in mismatches(evidence):
        for hypothesis in HYPOTHESES:
            by_chance = m.coarse and hypothesis.rule in BY_PLACE
            sentence = None if by_chance else hypothesis.fits(m)
            if sentence is not None:
                found.setdefault(hypothesis.rule, []).append((m, sentence))
                break
    if estimated := found.get("undeclared-surrogate"):
        found = {"undeclared-surrogate": [*estimated, *_of_the_same_estimate(found)]}
    seen = {name: _match_of(name, explained) for name, explained in found.items()}
    turned = _turned(evidence)
    return seen if turned is None else {**seen, "transposed-gradient": turned}


def _of_the_same_estimate(
    found: Mapping[str, Sequence[tuple[Mismatch, str]]],
) -> Iterator[tuple[Mismatch, str]]:
    """Yield the quantizer's other incorrect gradients, such as that of a learned step size."""
    for name, explained in found.items():
        for m, _ in explained if name != "undeclared-surrogate" else ():
            yield (
                m,
                (
                    f"the gradient of `{m.name}` is not that of `forward` either, and only the "
                    "surrogate tells whether it is right"
                ),
            )


def _match_of(rule: str, explained: list[tuple[Mismatch, str]]) -> Match:
    wrong = [m for m, _ in explained]
    sentences = without_repeats(dict.fromkeys(sentence for _, sentence in explained))
    seen = {"inputs": [m.name for m in wrong], **witness(wrong[0]), **perhaps_meant(rule, wrong)}
    hint = LOSES_THE_SIGN if rule == "wrong-region" and all(map(_is_flipped, wrong)) else ""
    if rule == "gradient-mismatch" and any(map(without_argument, wrong)):
        hint = LEAVES_OUT
    if rule == "duplicate-index" and not any(map(_repeating, wrong)):
        hint = ADD_SLICES
    if rule == "non-finite" and (line := _nan_line(wrong[0].evidence)):
        bad, right = wrong[0].known & wrong[0].actual.isnan(), wrong[0].expected
        limit = bool(bad.any()) and bool((right.value.abs() > right.tolerance)[bad].all())
        seen["line"], hint = line, _hint_at_nan(wrong[0].evidence, limit)
    usual = next(it.hint for it in HYPOTHESES if it.rule == rule)
    if rule in FORGETS and (names := unused_names(wrong[0].evidence.contract.backward_source)):
        hint = f"`backward` never uses {listed(quoted(names))}. {hint or usual}"
    message = paragraph(sentences)
    if wrong[0].evidence.values.surrogate:
        message = message.replace("the true gradient", "the gradient of the surrogate")
    return Match(message, seen, hint=hint)


# An error that one of these rules reports may be due to a value that backward never uses.
FORGETS = ("constant-factor", "missing-dependency", "gradient-mismatch")


def unused_names(source: str) -> list[str]:
    """Return the names that a method's source assigns but never reads."""
    try:
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source)))]
    except SyntaxError:
        return []
    names = [node for node in nodes if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    stored = [node.id for node in names if isinstance(node.ctx, ast.Store)]
    return [n for n in dict.fromkeys(stored) if n not in read and not n.startswith("_")]


LEAVES_OUT = (
    "Derive the formula again. Look for the factor or the term that contains this argument. "
    "`backward` leaves it out, or uses it for another gradient."
)
ADD_SLICES = (
    "The gradients of all uses of an element add up. If `backward` writes slices that overlap, use "
    "`+=` instead of `=`. For an index that repeats, use `index_add_` or `scatter_add_`."
)
LOSES_THE_SIGN = (
    "If `backward` recovers the input from its square, its square root or its absolute value, the "
    "sign of the input is lost. In this case, save the input itself. Otherwise, compare the "
    "conditions in `backward` with the branches of `forward`."
)


def _is_flipped(m: Mismatch) -> bool:
    return bool(within(m.actual, Expected(-m.truth, m.expected.tolerance))[m.wrong].all())


def without_repeats(sentences: Iterable[str]) -> list[str]:
    """Remove repeated sentences from paragraphs about several inputs.

    If the paragraphs differ only in their first sentence, return all first sentences, followed by
    the text that they share.
    """
    told = [sentence.partition(". ")[::2] for sentence in sentences]
    (_, rest), *_ = told
    if any(other != rest for _, other in told):
        return list(sentences)
    together = rest.replace("Its error comes", "These errors come") if len(told) > 1 else rest
    return [*(first for first, _ in told), *filter(None, [together])]


def _decide_by(hypothesis: Hypothesis, evidence: Evidence) -> Match | None:
    return explain(evidence).get(hypothesis.rule) or hypothesis.otherwise(evidence)


def _turned(evidence: Evidence) -> Match | None:
    """Report a gradient with an incorrect shape whose transpose is correct."""
    for position in evidence.wanted:
        if raw_transpose(evidence, position):
            name = evidence.name(position)
            return Match(
                f"the gradient of `{name}` is the true gradient with its last two dims swapped, so "
                f"it does not have the shape {tuple(evidence.inputs[position].shape)} of `{name}`.",
                {"inputs": [name], "line": return_line(evidence.contract.backward_source)},
            )
    return None


# The doctor does not report a mismatch if a broken contract, a nonlinear backward or an incorrect
# forward explains it.
_AFTER = (*UNUSABLE, "linearity", "forward-mismatch", "wrong-arity", "gradient-dtype")

VALUE_RULES = tuple(
    Rule(
        name=hypothesis.rule,
        family="values",
        severity="error",
        title=hypothesis.title,
        hint=hypothesis.hint,
        lesson=hypothesis.lesson,
        decide=partial(_decide_by, hypothesis),
        after=_AFTER,
        by_design=("wrong-jvp",),  # wrong-jvp compares forward mode with backward
    )
    for hypothesis in HYPOTHESES
)


# --------------------------------------------------------------------------------------------------
# Conventions for points at which the derivative does not exist.
# --------------------------------------------------------------------------------------------------


@rule(
    "kink-convention",
    "values",
    "info",
    "the gradient differs from the reference only where no derivative exists",
    hint="State in the docstring which value `backward` returns at the kink. Any value "
    "between the two slopes is valid. PyTorch chooses 0 for relu at 0 and for hardtanh at its "
    "bounds. For clamp at its bounds, PyTorch 2.13 and earlier choose 1; PyTorch 2.14 and later "
    "choose 0.",
    lesson="01_template",
    after=("contract", "linearity", "values"),
)
def kink_convention(evidence: Evidence) -> Match | None:
    if evidence.values.reference_grads is None or mismatches(evidence):
        return None
    vjp = evidence.values.vjps[RANDOM]
    for slot, (grad, want) in enumerate(
        zip(vjp.grads, evidence.values.reference_grads, strict=True)
    ):
        expected = evidence.values.expected[RANDOM][slot]
        if grad is None:
            continue
        off = torch.isnan(expected.value) & ((grad - want).abs() > expected.tolerance)
        if bool(off.any()):
            index = tuple(off.nonzero()[0].tolist())
            name = evidence.name(evidence.wanted[slot])
            return Match(
                f"the gradient of `{name}` differs from the reference only at a kink, where no "
                "derivative exists.",
                {
                    "input": name,
                    "index": list(index),
                    "at": plain(evidence.inputs[evidence.wanted[slot]][index]),
                    "expected": plain(want[index]),
                    "actual": plain(grad[index]),
                },
            )
    return None
