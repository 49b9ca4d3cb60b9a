"""Rules of requires_grad: the caller chooses which inputs get a gradient."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "frozen-input",
    "layout",
    "error",
    "backward fails or changes when an input is frozen",
    hint="Compute each gradient only if the `ctx.needs_input_grad` flag of its input is set, and "
    "save what it needs under the same condition. Any combination of flags can occur.",
    lesson="02_ctx_rules",
    after=("contract", "linearity", "values"),
)
def frozen_input(evidence: Evidence) -> Seen | None:
    seen = disagreement(evidence, "frozen-input")
    if seen is None or "incorrect number of gradients" not in seen.message:
        return seen
    return replace(seen, hint=_ONE_FOR_EACH)


_ONE_FOR_EACH = (
    "Return one value for each argument of `forward` on every path through `backward`: None for "
    "each gradient that is not needed."
)
