"""Rules of repetition: where two runs of one call differ, no comparison of runs means anything."""

from __future__ import annotations

from autograd_course.doctor.comparing.numbers import element
from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.rules.agreement import Place, distance, furthest, shown, twins
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.words import sentence

COMPARISONS = (
    "linearity", "values", "layout", "order", "transforms", "shared-state", "not-reentrant",
    "tensor-on-ctx",
)  # fmt: skip


@rule(
    "nondeterministic",
    "state",
    "error",
    "two runs of the same call differ",
    hint="Find a value that changes from call to call although the arguments and the seeds stay "
    "the same, such as uninitialized memory, a counter, the time, or a random number from a "
    "generator that is not seeded.",
    lesson="08_debugging_clinic",
    after=("contract",),
    explains=(*COMPARISONS, "rng-not-restored"),
    by_design=(*COMPARISONS, "rng-not-restored"),
)
def nondeterministic(evidence: Evidence) -> Seen | None:
    return _unwritten(evidence) or _differing(evidence) or _rounding(evidence)


def _differing(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "repeated"):
        if place := furthest(twin):
            name, witness = _witness(twin, place, "in one call, {} in the next")
            return Seen(f"{name} changes {twin.how}.", {"witness": witness})
    return None


def _unwritten(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "filled"):
        if place := furthest(twin):
            k, index = place
            came = twin.came[k]
            if came is not None and came.dim() == len(index) and bool(came[index].isnan()):
                name = twin.names[k]
                return Seen(
                    f"{name} contains uninitialized memory.",
                    {"witness": f"{element(name, index)}: an uninitialized value from torch.empty"},
                )
    return None


def _rounding(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "repeated"):
        for name, came, should in zip(twin.names, twin.came, twin.should, strict=True):
            off = distance(came, should)
            if off is not None and bool(off.any()):
                return Seen(
                    f"{name} differs in its last digits from one call to the next, because an "
                    "operation does not add in a fixed order.",
                    severity="info",
                    hint="Call `torch.use_deterministic_algorithms(True)` to find such operations.",
                )
    return None


@rule(
    "rng-not-restored",
    "state",
    "error",
    "backward draws new random numbers",
    hint="Save the random numbers that `forward` drew, or restore the generator's state before "
    "`backward` draws them again.",
    lesson="06_memory_patterns",
    after=("contract",),
    explains=COMPARISONS,
    by_design=COMPARISONS,
)
def rng_not_restored(evidence: Evidence) -> Seen | None:
    for twin in twins(evidence, "redrawn"):
        if place := furthest(twin):
            name, witness = _witness(
                twin, place, "with new random numbers, {} with those of `forward`"
            )
            return Seen(
                "`backward` draws new random numbers instead of reusing those of `forward`. "
                f"{sentence(name)} changes {twin.how}.",
                {"witness": witness},
            )
    return None


def _witness(twin: Twin, place: Place, both: str) -> tuple[str, str]:
    """Return the tensor's name, and its element furthest off: the plain value, then the other."""
    k, index = place
    plain, other = shown(twin.should[k], index), shown(twin.came[k], index)
    return twin.names[k], f"{element(twin.names[k], index)}: {plain} {both.format(other)}"
