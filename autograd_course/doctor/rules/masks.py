"""Rules of requires_grad: which inputs want a gradient is the caller's choice."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "frozen-input",
    "layout",
    "error",
    "the call needs gradients for inputs that may be frozen",
    hint="ctx.needs_input_grad tells which gradients are wanted, in any combination: does each of "
    "them find in ctx what it needs, and only under the flag of its own input?",
    lesson="02_ctx_rules",
    after=("contract", "linearity", "values"),
)
def frozen_input(evidence: Evidence) -> Seen | None:
    seen = disagreement(evidence, "frozen-input")
    if seen is None or "incorrect number of gradients" not in seen.message:
        return seen
    return replace(seen, hint=_ONE_FOR_EACH)


_ONE_FOR_EACH = (
    "Which return of backward runs then? Also where few gradients are wanted, or none, it returns "
    "one value for each argument: None in the other places."
)
