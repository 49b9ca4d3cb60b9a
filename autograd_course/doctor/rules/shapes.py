"""Rules of shape: tensors without elements, and without dims."""

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
    "backward does not handle an empty batch",
    hint="Handle an empty batch, which a filter or a short last shard can produce. Each gradient "
    "must have the shape of its input, and the gradient of an input that all elements of the batch "
    "share, such as a weight, must be zero.",
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
    "backward does not handle 0-dim tensors",
    hint="Make `backward` handle 0-dim tensors as `forward` does. Look for code that needs at "
    "least one dim, such as a loop, an index, len or a matrix product.",
    lesson="11_ship_it",
    after=_AFTER,
)
def zero_dim(evidence: Evidence) -> Seen | None:
    return disagreement(evidence, "zero-dim")
