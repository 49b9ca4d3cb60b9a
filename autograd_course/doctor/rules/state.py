"""Rules of state: what one call leaves behind for another."""

from __future__ import annotations

import torch

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.mismatch import number, plain, resolution, size, unraveled
from autograd_course.doctor.rules.registry import Seen, rule

SLACK = 1e-9


@rule(
    "shared-state",
    "state",
    "error",
    "one call's backward reads what another call left",
    hint="Each call has a ctx of its own: keep there what backward needs, not on the class, on a "
    "module or in a global.",
    lesson="02_ctx_rules",
    after=("contract", "linearity", "values"),
)
def shared_state(evidence: Evidence) -> Seen | None:
    again = evidence.interleaved
    if again is None or "random" not in evidence.pulls:
        return None
    if again.failure:
        return Seen(
            f"backward fails when forward was called again before it: {again.failure.kind}: "
            f"{again.failure.text}"
        )
    pairs = zip(evidence.wanted, evidence.pulls["random"].grads, again.grads, strict=False)
    for position, alone, between in pairs:
        if alone is None or between is None:
            continue
        off = torch.nan_to_num((alone - between).abs(), nan=0.0)
        if size(off) > max(SLACK, resolution(alone)) * size(alone):
            index = unraveled(int(off.argmax()), off.shape)
            name = evidence.name(position)
            element = f"{name}{list(index) if index else ''}"
            before, after = (number(plain(t[index])) for t in (alone, between))
            return Seen(
                f"the gradient of {name} changes when forward is called once more, on other "
                "values, before backward runs.",
                {"input": name,
                 "witness": f"{element}: gradient {before} alone, {after} after a second call"},
            )  # fmt: skip
    return None
