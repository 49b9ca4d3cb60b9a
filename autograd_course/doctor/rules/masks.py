"""Rules of requires_grad: which inputs want a gradient is the caller's choice."""

from __future__ import annotations

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
    return disagreement(evidence, "frozen-input")
