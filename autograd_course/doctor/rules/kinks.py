"""Where no derivative exists, there are conventions."""

from __future__ import annotations

import torch

from autograd_course.doctor.comparing.mismatch import mismatches
from autograd_course.doctor.comparing.numbers import plain
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "kink-convention",
    "values",
    "info",
    "the gradient differs from the reference only where no derivative exists",
    hint="State in the docstring which value `backward` returns at the kink. Any value "
    "between the two slopes is valid. PyTorch chooses 0 for relu at 0 and for hardtanh at its "
    "bounds. For clamp at its bounds it chooses 1 up to PyTorch 2.13 and 0 from 2.14 on.",
    lesson="01_template",
    after=("contract", "linearity", "values"),
)
def kink_convention(evidence: Evidence) -> Seen | None:
    if evidence.reference_grads is None or mismatches(evidence):
        return None
    pull = evidence.pulls["random"]
    for slot, (grad, want) in enumerate(zip(pull.grads, evidence.reference_grads, strict=True)):
        expected = evidence.expected["random"][slot]
        if grad is None:
            continue
        off = torch.isnan(expected.value) & ((grad - want).abs() > expected.tolerance)
        if bool(off.any()):
            index = tuple(off.nonzero()[0].tolist())
            name = evidence.name(evidence.wanted[slot])
            return Seen(
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
