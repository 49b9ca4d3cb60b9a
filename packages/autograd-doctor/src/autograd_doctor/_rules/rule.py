"""The ``Rule`` class, and helpers that several rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import identical, resolution, size, within
from autograd_doctor._safe_repr import shown
from autograd_doctor.evidence import RANDOM, Comparison, Cotangent, Evidence, Failure
from autograd_doctor.finding import Finding, Severity
from autograd_doctor.formatting import element, nth, number, plain, unraveled

# --------------------------------------------------------------------------------------------------
# Define a rule: its name, its severity, and the pure function that detects the mistake.
# --------------------------------------------------------------------------------------------------

Family = Literal[
    "contract", "linearity", "values", "layout", "state", "order", "transforms", "efficiency"
]


@dataclass(frozen=True)
class Match:
    """The result of a rule that found a mistake.

    If ``severity`` or ``hint`` is given, it overrides the rule's severity or hint.
    """

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | None = None
    hint: str = ""


Decide = Callable[[Evidence], Match | None]


@dataclass(frozen=True)
class Rule:
    """A check for one kind of mistake.

    ``after``, ``explains`` and ``by_design`` hold names of rules or rule families. If a rule in
    ``after`` reports an error, this rule does not run. If this rule reports an error, the rules in
    ``explains`` do not run. If the user declares that this rule's finding is intentional, the rules
    in ``by_design`` do not run.
    """

    name: str
    family: Family
    severity: Severity
    title: str
    hint: str
    lesson: str
    decide: Decide
    after: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    by_design: tuple[str, ...] = ()

    def __call__(self, evidence: Evidence) -> Finding | None:
        """Return a finding, or ``None`` if the evidence does not show this mistake."""
        seen = self.decide(evidence)
        if seen is None:
            return None
        return Finding(
            rule=self.name,
            severity=seen.severity or self.severity,
            message=seen.message,
            evidence=dict(seen.evidence),
            hint=seen.hint or self.hint,
            lesson=self.lesson,
        )


# If one of these rules reports an error, the doctor cannot judge the gradients, because they are
# missing or meaningless. The list omits mutates-input, because the doctor can judge the gradients
# even after this error.
UNUSABLE = (
    "non-tensor-saved",
    "saved-tensors-in-forward",
    "forward-raises",
    "backward-never-called",
    "wrong-non-differentiable",
    "gradient-shape",
    "unreduced-broadcast",
    "backward-raises",
    "none-grad-output",
    "nondeterministic",
)


def rule(
    name: str,
    family: Family,
    severity: Severity,
    title: str,
    *,
    hint: str,
    lesson: str,
    after: tuple[str, ...] = (),
    explains: tuple[str, ...] = (),
    by_design: tuple[str, ...] = (),
) -> Callable[[Decide], Rule]:
    """Return a decorator that turns a function into a ``Rule`` with these properties."""

    def make(decide: Decide) -> Rule:
        return Rule(name, family, severity, title, hint, lesson, decide, after, explains, by_design)

    return make


# --------------------------------------------------------------------------------------------------
# Helpers that format text and look up facts for several rules.
# --------------------------------------------------------------------------------------------------


def ordinal(cotangent: Cotangent) -> str:
    """Return the position of the only output with a cotangent as a word, such as ``first``."""
    return nth(cotangent.output)


def shape(sizes: torch.Size) -> str:
    return str(tuple(sizes))


def raised(failure: Failure) -> dict[str, str]:
    return {"exception": failure.kind, "text": failure.text, "line": failure.line}


def what_was_raised(failure: Failure) -> str:
    if failure.kind == "SystemExit":
        return "calls `exit()`"
    said = f": {failure.text}" if failure.text else " without a message"
    return f"raises {failure.kind}{said}"


def call(evidence: Evidence, dtype: str = "") -> str:
    """Describe the arguments of the call, as in ``x float64[3, 4], ceiling 6.0``.

    If ``dtype`` is given, it replaces the dtype of each floating-point argument.
    """
    return ", ".join(
        f"{name} {describe(value, dtype)}"
        for name, value in zip(evidence.parameters, evidence.inputs, strict=True)
    )


def describe(value: Any, dtype: str = "") -> str:
    if not isinstance(value, torch.Tensor):
        return shown(value)
    known = dtype if value.is_floating_point() else ""
    return f"{known or dtype_name(value)}{list(value.shape)}"


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def backward_failure(evidence: Evidence) -> Failure | None:
    """Return the error that ``backward`` raises, either when called directly or by autograd.

    Ignore three kinds of errors:

    - errors that occur only if some outputs are unused, because another rule reports them;
    - errors for a very large cotangent, because a solver may reject it;
    - errors in float64, if the call works in the dtypes of the user's inputs.
    """
    usual = (
        vjp.failure
        for name, vjp in evidence.values.vjps.items()
        if name.kind not in ("large", "single")
    )
    failures = (evidence.contract.direct and evidence.contract.direct.failure, *usual)
    return next((f for f in failures if f and not f.runs_in_own_dtype), None)


def raw_transpose(evidence: Evidence, position: int) -> bool:
    """Return whether ``backward`` returns the expected gradient with its last two dims swapped."""
    if (
        evidence.contract.direct is None
        or position not in evidence.wanted
        or RANDOM not in evidence.values.expected
    ):
        return False
    grad = (
        evidence.contract.direct.grads[position]
        if position < len(evidence.contract.direct.grads)
        else None
    )
    truth = evidence.values.expected[RANDOM][evidence.wanted.index(position)]
    if grad is None or grad.dim() < 2 or grad.shape == truth.value.shape:
        return False
    turned = grad.mT.to(truth.value.dtype)
    if turned.shape != truth.value.shape:
        return False
    known = ~torch.isnan(truth.value)
    return bool(known.any()) and bool(within(turned, truth)[known].all())


# --------------------------------------------------------------------------------------------------
# Find and describe differences between a variant of a call and the original call.
# --------------------------------------------------------------------------------------------------

# the position of a tensor in a comparison, and the index of its largest difference
Place = tuple[int, tuple[int, ...]]


def comparisons(evidence: Evidence, kind: str) -> Iterator[Comparison]:
    """Yield all comparisons of one kind, such as ``"batch"``."""
    return (comparison for comparison in evidence.variants.comparisons if comparison.kind == kind)


def disagreement(evidence: Evidence, kind: str) -> Match | None:
    """Describe the first comparison of this kind that shows an error or a difference.

    Return ``None`` if all comparisons agree.
    """
    return next(filter(None, map(describe_disagreement, comparisons(evidence, kind))), None)


def describe_disagreement(comparison: Comparison) -> Match | None:
    """Describe the error or the difference in a comparison. Return ``None`` if there is neither."""
    if comparison.failure:
        stage = (
            f"`{comparison.stage}`"
            if comparison.stage in ("forward", "backward")
            else comparison.stage
        )
        return Match(
            f"{comparison.how}, {stage} {what_was_raised(comparison.failure)}",
            raised(comparison.failure),
        )
    place = furthest(comparison)
    if place is None:
        return None
    k, index = place
    name = comparison.names[k]
    actual, expected = (
        format_element(value[k], index) for value in (comparison.actual, comparison.expected)
    )
    where = element(name, index)
    return Match(
        f"{name} changes {comparison.how}.{_shapes(comparison.actual[k], comparison.expected[k])}",
        {"witness": f"{where}: {actual}, should be {expected}"}
        | ({"line": comparison.line} if comparison.line else {}),
    )


def _shapes(actual: Tensor | None, expected: Tensor | None) -> str:
    """Return a sentence that names two different shapes, or ``""`` if the shapes are equal."""
    if actual is None or expected is None or actual.shape == expected.shape:
        return ""
    return f" Its shape is {tuple(actual.shape)} instead of {tuple(expected.shape)}."


def furthest(comparison: Comparison) -> Place | None:
    """Find the first tensor that differs.

    Return its position and the index of its largest difference, or ``None`` if no tensor differs.
    """
    for k, (actual, expected) in enumerate(
        zip(comparison.actual, comparison.expected, strict=True)
    ):
        off = None if identical(actual, expected) else distance(actual, expected)
        if off is None or not off.numel():
            continue
        slack = max(comparison.tolerance, _coarse(actual), _coarse(expected))
        if float(off.max()) > slack * max(size_of(actual), size_of(expected)) + comparison.floor:
            return k, unraveled(int(off.argmax()), off.shape)
    return None


def distance(actual: Tensor | None, expected: Tensor | None) -> Tensor | None:
    """Return the absolute difference between two tensors. A missing gradient counts as zeros."""
    if actual is None and expected is None:
        return None
    actual, expected = (_or_zeros(actual, expected), _or_zeros(expected, actual))
    if actual.shape != expected.shape:
        return torch.full((), torch.inf)
    same = (actual == expected) | (torch.isnan(actual) & torch.isnan(expected))
    return torch.where(same, 0.0, torch.nan_to_num((actual - expected).abs(), nan=torch.inf))


def size_of(tensor: Tensor | None) -> float:
    """Return the largest finite magnitude in a tensor, or 0 if the tensor is missing."""
    return 0.0 if tensor is None else size(tensor)


def _coarse(tensor: Tensor | None) -> float:
    return 0.0 if tensor is None or tensor.is_complex() else resolution(tensor)


def _or_zeros(tensor: Tensor | None, like: Tensor | None) -> Tensor:
    if tensor is not None:
        return tensor
    assert like is not None
    return torch.zeros_like(like)


def format_element(tensor: Tensor | None, index: tuple[int, ...]) -> str:
    """Format an element with four digits.

    Return ``"None"`` if the tensor is missing. If the index does not fit the tensor, return the
    tensor's shape.
    """
    if tensor is None:
        return "None"
    return (
        number(plain(tensor[index]))
        if tensor.dim() == len(index)
        else f"shape {tuple(tensor.shape)}"
    )
