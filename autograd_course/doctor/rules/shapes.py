"""Rules of shape: tensors without elements, and without axes."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement, furthest, told, twins
from autograd_course.doctor.rules.registry import Seen, rule

_AFTER = ("contract", "linearity", "forward-mismatch", "values")


@rule(
    "zero-size",
    "layout",
    "warning",
    "backward does not take a batch of length 0",
    hint="An empty batch is what a filter or a last, short shard leaves: every gradient then has "
    "its input's shape, and that of a shared input is zero.",
    lesson="11_ship_it",
    after=_AFTER,
)
def zero_size(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "zero-size"):
        seen, place = told(twin), furthest(twin)
        if seen is None or place is None:
            return seen
        return replace(seen, message=f"{twin.names[place[0]]} is not zero {twin.how}.")
    return None


@rule(
    "zero-dim",
    "layout",
    "error",
    "backward does not take 0-dim tensors",
    hint="Forward takes a single number as it takes a vector: what in backward needs an axis "
    "(a loop, an index, len, a matrix product)?",
    lesson="11_ship_it",
    after=_AFTER,
)
def zero_dim(evidence: Evidence) -> Seen | None:
    return disagreement(evidence, "zero-dim")
