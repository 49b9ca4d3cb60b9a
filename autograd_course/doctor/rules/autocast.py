"""Rules of mixed precision: forward under autocast, backward outside."""

from __future__ import annotations

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "autocast",
    "layout",
    "warning",
    "mixed precision breaks it",
    hint="Autocast computes matrix products in forward in low precision, so that its results and "
    "what was saved differ in dtype. torch.amp has two decorators that say in which dtype "
    "a Function's forward and backward run.",
    lesson="09_beyond_eager",
    after=("contract", "linearity", "values", "layout"),
)
def autocast(evidence: Evidence) -> Seen | None:
    return disagreement(evidence, "autocast")
