"""Rules of state: what one call, or one backward, leaves behind for another."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.comparing.closeness import same
from autograd_course.doctor.comparing.numbers import element, unraveled
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import disagreement, distance, shown, twins
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import raised, what_was_raised


@rule(
    "shared-state",
    "state",
    "error",
    "backward reads state that another call left behind",
    hint="Store the values that `backward` needs on `ctx`, not on the class, on a module or in a "
    "global variable: each call has its own `ctx`.",
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
            "when `forward` runs again before `backward`, `backward` "
            f"{what_was_raised(again.failure)}"
        )
    pairs = zip(evidence.wanted, plain.grads, again.grads, strict=False)
    for position, alone, between in pairs:
        off = None if same(alone, between) else distance(alone, between)
        if off is None or not bool(off.any()):
            continue
        index = unraveled(int(off.argmax()), off.shape)
        name = evidence.name(position)
        before, after = (shown(t, index) for t in (alone, between))
        told = f"gradient {before} after one call, {after} after a second call"
        return Seen(
            f"the gradient of `{name}` changes when `forward` runs again with other values before "
            "`backward` runs.",
            {"input": name, "witness": f"{element(name, index)}: {told}"},
        )
    return None


@rule(
    "not-reentrant",
    "state",
    "error",
    "a second backward pass through a graph differs from the first",
    hint="Do not change or delete attributes of `ctx` in `backward`: with `retain_graph=True`, "
    "autograd calls `backward` again with the same `ctx`.",
    lesson="02_ctx_rules",
    after=("contract", "shared-state"),
)
def not_reentrant(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "second backward"):
        if failure := twin.failure:
            first = replace(failure, text=failure.text.partition("\n")[0].partition(". ")[0])
            return Seen(
                f"{twin.how}, `backward` {what_was_raised(first)}",
                raised(failure),
                severity="warning",
            )
    return disagreement(evidence, "second backward")
