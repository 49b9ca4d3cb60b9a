"""Rules of state: what one call, or one backward, leaves behind for another."""

from __future__ import annotations

from autograd_course.doctor.comparing.closeness import same
from autograd_course.doctor.comparing.numbers import element, unraveled
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement, distance, shown, twins
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import raised


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
    plain = evidence.pulls.get("random")
    if again is None or plain is None or plain.failure:
        return None
    if again.failure and again.failure.runs_in_own_dtype:
        return None
    if again.failure:
        return Seen(
            f"backward fails when forward was called again before it: {again.failure.kind}: "
            f"{again.failure.text}"
        )
    pairs = zip(evidence.wanted, plain.grads, again.grads, strict=False)
    for position, alone, between in pairs:
        off = None if same(alone, between) else distance(alone, between)
        if off is None or not bool(off.any()):
            continue
        index = unraveled(int(off.argmax()), off.shape)
        name = evidence.name(position)
        before, after = (shown(t, index) for t in (alone, between))
        told = f"gradient {before} alone, {after} after a second call"
        return Seen(
            f"the gradient of {name} changes when forward is called once more, on other values, "
            "before backward runs.",
            {"input": name, "witness": f"{element(name, index)}: {told}"},
        )
    return None


@rule(
    "not-reentrant",
    "state",
    "error",
    "a second backward through a graph is not like the first",
    hint="With retain_graph=True the engine calls backward again on the same ctx: what does the "
    "first time change there, or take away?",
    lesson="02_ctx_rules",
    after=("contract", "shared-state"),
)
def not_reentrant(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "second backward"):
        if failure := twin.failure:
            said = (failure.text or failure.kind).splitlines()[0].partition(". ")[0]
            return Seen(f"{failure.kind} {twin.how}: {said}", raised(failure), severity="warning")
    return disagreement(evidence, "second backward")
