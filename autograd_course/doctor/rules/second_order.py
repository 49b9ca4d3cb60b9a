"""Rules of second order: a backward that is differentiated in its turn."""

from __future__ import annotations

import math

from autograd_course.doctor.comparing.numbers import number
from autograd_course.doctor.evidence import Evidence, Failure, SecondDerivative, SecondOrder
from autograd_course.doctor.finding import Severity
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import raised, what_was_raised

FIRST_ORDER = ("contract", "linearity", "values", "state")
ONCE_DIFFERENTIABLE = "marked with @once_differentiable"
ZERO_BY_INF = (
    "The graph of backward multiplies 0 by inf: behind a root or a division of 0, or on the side "
    "that torch.where or clamp does not choose, which is differentiated too. Put a harmless number "
    "there before the operation that fails."
)


@rule(
    "silent-double-backward",
    "order",
    "warning",
    "a second derivative comes out wrong, without an error",
    hint="Only saved inputs and outputs carry a graph of their own. An intermediate of forward is "
    "a constant to backward: return it as one more output, or compute it again in backward. Use "
    "no .detach(), .data or .numpy() there.",
    lesson="05_double_backward",
    after=FIRST_ORDER,
)
def silent_double_backward(evidence: Evidence) -> Seen | None:
    second = evidence.second_order
    if second is None or _marked(second.failure):
        return None
    wrong = _first_wrong(evidence, second)
    if wrong is None:
        return None
    return _seen(evidence, _lost(wrong), wrong, hint="" if _is_number(wrong) else ZERO_BY_INF)


@rule(
    "once-differentiable-leak",
    "order",
    "warning",
    "@once_differentiable drops a second derivative in silence",
    hint="Build backward from differentiable operations and drop the decorator. If that cannot be, "
    "raise in backward where torch.is_grad_enabled(): it is when a second derivative is wanted, "
    "and always under torch.func, which then refuses the first one too.",
    lesson="05_double_backward",
    after=FIRST_ORDER,
)
def once_differentiable_leak(evidence: Evidence) -> Seen | None:
    second = evidence.second_order
    if second is None or not _marked(second.failure):
        return None
    wrong = _first_wrong(evidence, second)
    if wrong is None:
        return None
    message = (
        "@once_differentiable raises only in .backward(), and only where grad_output requires "
        f"grad. Elsewhere a second derivative through the gradient of {wrong.of} is dropped in "
        "silence."
    )
    return _seen(evidence, message, wrong)


@rule(
    "no-double-backward",
    "order",
    "info",
    "backward cannot be differentiated, and says so",
    hint="For second derivatives (a gradient penalty, a Hessian) backward must be built from "
    "differentiable operations on saved inputs and outputs; say in the docstring if it is not.",
    lesson="05_double_backward",
    after=(*FIRST_ORDER, "silent-double-backward", "once-differentiable-leak"),
)
def no_double_backward(evidence: Evidence) -> Seen | None:
    second = evidence.second_order
    if second is None or second.failure is None or _first_wrong(evidence, second) is not None:
        return None
    in_place = "modified by an inplace operation" in second.failure.text
    return Seen(
        f"a second derivative {what_was_raised(second.failure)}",
        raised(second.failure),
        severity=_if_asked(evidence),
        hint=_IN_PLACE if in_place else "",
    )


_IN_PLACE = (
    "An operation in place (sub_, +=, an assignment to p[…]) in backward overwrites values that "
    "the second derivative needs: compute into a new tensor, wherever torch.is_grad_enabled()."
)


def _marked(failure: Failure | None) -> bool:
    return failure is not None and ONCE_DIFFERENTIABLE in failure.text


def _first_wrong(evidence: Evidence, second: SecondOrder) -> SecondDerivative | None:
    """Return the first that is wrong; one that is nan, which its user sees, only where asked."""
    wrong = (found for found in second.derivatives if found.wrong)
    told = (f for f in wrong if evidence.second_order_asked or math.isfinite(f.came or 0.0))
    return next(told, None)


def _is_number(wrong: SecondDerivative) -> bool:
    return math.isfinite(wrong.came or 0.0)


def _lost(wrong: SecondDerivative) -> str:
    if not _is_number(wrong):
        return (
            f"the gradient of {wrong.of} is finite, and so is its derivative with respect to "
            f"{wrong.by}, but by its graph that comes out as {number(wrong.came or 0.0)}."
        )
    if wrong.came:
        return (
            f"the gradient of {wrong.of} has a wrong derivative with respect to {wrong.by}: its "
            "graph misses a part of how it depends on it, or a Function that backward calls has a "
            "wrong backward."
        )
    return (
        f"the gradient of {wrong.of} depends on {wrong.by}, but its graph does not know: the "
        f"second derivative comes out as 0, without an error."
    )


def _seen(evidence: Evidence, message: str, wrong: SecondDerivative, hint: str = "") -> Seen:
    came, should = number(wrong.came or 0.0), number(wrong.should)
    witness = (
        f"gradient of {wrong.of}, differentiated by {wrong.by} along a random direction: "
        f"{came}, should be {should}"
    )
    seen = {"input": wrong.of, "witness": witness}
    return Seen(message, seen, severity=_if_asked(evidence), hint=hint)


def _if_asked(evidence: Evidence) -> Severity | None:
    """Return the severity for a Function that is meant to be differentiated twice."""
    return "error" if evidence.second_order_asked else None
