"""Dims that a backward confuses: the batch, and the one that an argument names."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.comparing.closeness import within
from autograd_course.doctor.comparing.mismatch import Mismatch, mismatches
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement, furthest, told, twins
from autograd_course.doctor.rules.registry import Seen


def wrong_dim(m: Mismatch) -> str | None:
    """Wrong for the dim that the call names, right for another."""
    how = _right_when(m, "dim-argument")
    return how and f"the gradient of `{m.name}` is wrong for this call, but right {how}"


def wrong_batch(m: Mismatch) -> str | None:
    """Right for every slice along dim 0 alone, wrong for all of them at once."""
    how = _right_when(m, "batch")
    return how and f"the gradient of `{m.name}` is wrong for the whole batch, but right {how}"


def _right_when(m: Mismatch, kind: str) -> str | None:
    """Return how a call was made that brought the true gradient."""
    name = m.evidence.gradient_name(m.position)
    for twin in twins(m.evidence, kind):
        came = dict(zip(twin.names, twin.came, strict=True)).get(name)
        if came is None or came.shape != m.truth.shape:
            continue
        if bool(within(came, m.expected)[m.known].all()):
            return twin.how
    return None


def other_dim(evidence: Evidence) -> Seen | None:
    """The example is right, the same call along another dim is not."""
    return None if mismatches(evidence) else disagreement(evidence, "dim-argument")


def other_batch(evidence: Evidence) -> Seen | None:
    """The example is right, a slice of it or a longer batch is not.

    A declared surrogate may mix the slices that forward keeps apart.
    """
    if mismatches(evidence) or evidence.surrogate:
        return None
    return disagreement(evidence, "batch") or _grown(evidence)


def _grown(evidence: Evidence) -> Seen | None:
    twin = next(twins(evidence, "grown"), None)
    seen, place = (told(twin), furthest(twin)) if twin else (None, None)
    if twin is None or seen is None or place is None:
        return seen
    name = twin.names[place[0]]
    return replace(seen, message=f"{name} {twin.how} differs from the one computed slice by slice.")
