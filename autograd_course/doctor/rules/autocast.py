"""Rules of mixed precision: forward under autocast, backward outside."""

from __future__ import annotations

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "autocast",
    "layout",
    "warning",
    "the call fails or changes under autocast",
    hint="Decorate `forward` with `torch.amp.custom_fwd` and `backward` with "
    "`torch.amp.custom_bwd`, which fix the dtype in which both run. Without these decorators, "
    "autocast computes the matrix products of `forward` in low precision, and their dtype differs "
    "from that of the saved tensors.",
    lesson="09_beyond_eager",
    after=("contract", "linearity", "values", "layout"),
)
def autocast(evidence: Evidence) -> Seen | None:
    return disagreement(evidence, "autocast")
