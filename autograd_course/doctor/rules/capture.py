"""Rules of what lies around a Function: captured tensors, and modules that it runs."""

from __future__ import annotations

from autograd_course.doctor.comparing.numbers import element, number
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import furthest, shown, twins
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import listed


@rule(
    "captured-tensor",
    "state",
    "error",
    "a tensor taken from around the call gets no gradient",
    hint="apply sees the tensors among its own arguments, and none inside of a list, a module or a "
    "closure: how would the engine know of this one?",
    lesson="02_ctx_rules",
    after=("contract",),
)
def captured_tensor(evidence: Evidence) -> Seen | None:
    lost = [captured for captured in evidence.captured if captured.slope > 0]
    if not lost:
        return None
    names, one = [captured.name for captured in lost], len(lost) == 1
    verbs = ("requires grad, moves", "gets") if one else ("require grad, move", "get")
    rate = f"moving {names[0]} changes an output at a rate of {number(lost[0].slope)}"
    return Seen(
        f"{listed(names)} {verbs[0]} the output, and {verbs[1]} no gradient.",
        {"tensors": names, "witness": f"{rate}; its gradient stays None"},
    )


@rule(
    "recompute-side-effect",
    "state",
    "error",
    "backward advances a module's state a second time",
    hint="A recomputation runs the whole forward again, with all that it does besides: running "
    "statistics, counters. What must not happen twice?",
    lesson="06_memory_patterns",
    after=("contract",),
)
def recompute_side_effect(evidence: Evidence) -> Seen | None:
    twin = next(twins(evidence, "recomputed"), None)
    place = furthest(twin) if twin else None
    if twin is None or place is None:
        return None
    k, index = place
    forth, back = shown(twin.should[k], index), shown(twin.came[k], index)
    return Seen(
        f"backward changes the buffer {twin.names[k]} a second time, after forward has.",
        {
            "buffers": list(twin.names),
            "witness": f"{element(twin.names[k], index)}: {forth} after forward, {back} after "
            "backward",
        },
    )
