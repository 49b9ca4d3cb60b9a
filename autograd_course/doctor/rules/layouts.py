"""Rules of layout: how a tensor lies in memory is no part of its value."""

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
    hint="Who writes backward cannot choose how grad_output lies in memory: after a sum it is one "
    "number expanded. Where does backward rely on strides: view, as_strided, a raw pointer?",
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
    hint="A transpose or a slice is a view with other strides: what does forward or backward take "
    "for granted about them (view, as_strided, a raw pointer, a buffer of its own)?",
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
