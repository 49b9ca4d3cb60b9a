"""Rules of what a Function uses besides its arguments: captured tensors, modules that it runs."""

from __future__ import annotations

from autograd_course.doctor.comparing.numbers import element, number
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.rules.agreement import furthest, shown, twins
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.words import listed, quoted


@rule(
    "captured-tensor",
    "state",
    "error",
    "a tensor that is not an argument gets no gradient",
    hint="Pass the tensor to `F.apply` as a separate argument. Autograd does not see tensors "
    "inside a list, a module or a closure.",
    lesson="02_ctx_rules",
    after=("contract",),
)
def captured_tensor(evidence: Evidence) -> Seen | None:
    lost = [captured for captured in evidence.captured if captured.slope > 0]
    if not lost:
        return None
    names, one = [captured.name for captured in lost], len(lost) == 1
    does = (
        ("tensor", "requires", "affects", "gets")
        if one
        else ("tensors", "require", "affect", "get")
    )
    what, requires, affects, gets = does
    return Seen(
        f"the {what} {listed(quoted(names))} {requires} grad and {affects} the output, but {gets} "
        "no gradient.",
        {
            "tensors": names,
            "witness": f"the output changes with {names[0]} at a rate of {number(lost[0].slope)}, "
            f"but the gradient of {names[0]} is None",
        },
    )


@rule(
    "recompute-side-effect",
    "state",
    "error",
    "backward updates a module's state a second time",
    hint="Switch off updates of running statistics and counters while `backward` recomputes "
    "`forward`: a recomputation repeats everything that `forward` does.",
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
        f"`forward` updates the buffer `{twin.names[k]}`, and `backward` updates it again.",
        {
            "buffers": list(twin.names),
            "witness": f"{element(twin.names[k], index)}: {forth} after forward, {back} after "
            "backward",
        },
    )
