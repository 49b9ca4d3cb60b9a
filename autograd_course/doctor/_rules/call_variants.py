"""Rules of layout: how a tensor lies in memory is not part of its value."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement, told, twins
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "grad-output-layout",
    "layout",
    "error",
    "backward depends on grad_output's memory layout",
    hint="Do not assume that `grad_output` is contiguous: after a sum, for example, it is a "
    "single number expanded to a shape. Call `reshape` instead of `view`, and call "
    "`.contiguous()` before you use `as_strided` or a raw pointer.",
    lesson="08_debugging_clinic",
    after=("contract", "linearity"),
)
def grad_output_layout(evidence: Evidence) -> Seen | None:
    return disagreement(evidence, "grad-output-layout")


@rule(
    "input-layout",
    "layout",
    "error",
    "the result depends on an input's memory layout",
    hint="Do not assume contiguous inputs: a transpose or a slice has other strides. Check every "
    "`view`, `as_strided`, raw pointer and buffer in `forward` and `backward`, or call "
    "`.contiguous()` first.",
    lesson="10_external_code",
    after=("contract", "linearity"),
)
def input_layout(evidence: Evidence) -> Seen | None:
    refused = None
    for twin in twins(evidence, "input-layout"):
        seen = told(twin)
        if seen and twin.stage != "forward":
            return seen
        refused = refused or seen
    return refused and replace(refused, severity="warning")  # loud, so nothing goes wrong unseen
