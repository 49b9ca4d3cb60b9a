"""Rules of state: what one call leaves behind for another."""

from __future__ import annotations

import torch

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.mismatch import element, number, plain, same, unraveled
from autograd_course.doctor.rules.registry import Seen, rule


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
        if alone is None or between is None or same(alone, between):
            continue
        off = torch.nan_to_num((alone - between).abs(), nan=torch.inf)
        index = unraveled(int(off.argmax()), off.shape)
        name = evidence.name(position)
        before, after = (number(plain(t[index])) for t in (alone, between))
        told = f"gradient {before} alone, {after} after a second call"
        return Seen(
            f"the gradient of {name} changes when forward is called once more, on other values, "
            "before backward runs.",
            {"input": name, "witness": f"{element(name, index)}: {told}"},
        )
    return None
