"""Rules about shared state, random numbers, captured tensors and the contents of ctx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autograd_doctor._numerics.closeness import same
from autograd_doctor._rules.rule import (
    Match,
    Place,
    comparisons,
    describe_disagreement,
    disagreement,
    distance,
    format_element,
    furthest,
    raised,
    rule,
    what_was_raised,
)
from autograd_doctor.evidence import AN_ITERATOR, RANDOM, Comparison, Evidence, OnCtx
from autograd_doctor.finding import Severity
from autograd_doctor.formatting import element, listed, number, quoted, sentence, unraveled

# --------------------------------------------------------------------------------------------------
# Rules about state that one call or backward pass changes and another reads.
# --------------------------------------------------------------------------------------------------


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
def shared_state(evidence: Evidence) -> Match | None:
    return _overwritten(evidence) or _left_behind(evidence)


def _left_behind(evidence: Evidence) -> Match | None:
    """Find an output that depends on an earlier call with different arguments."""
    found = disagreement(evidence, "earlier call")
    return found and replace(found, severity="warning", hint=CACHED)


CACHED = (
    "If `forward` looks something up that it computed before, the key must contain everything that "
    "this value depends on."
)


def _overwritten(evidence: Evidence) -> Match | None:
    """Find a gradient that depends on a call between ``forward`` and ``backward``."""
    again = evidence.variants.interleaved
    plain = evidence.values.vjps.get(RANDOM)
    if again is None or plain is None or plain.failure:
        return None
    if again.failure and again.failure.runs_in_own_dtype:
        return None
    if again.failure:
        return Match(
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
        before, after = (format_element(t, index) for t in (alone, between))
        told = f"gradient {before} after one call, {after} after a second call"
        return Match(
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
def not_reentrant(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "second backward"):
        hint, seen = _how_altered(comparison.altered)
        if failure := comparison.failure:
            first = replace(failure, text=failure.text.partition("\n")[0].partition(". ")[0])
            return Match(
                f"{comparison.how}, `backward` {what_was_raised(first)}",
                {**raised(failure), **seen},
                severity="warning",
                hint=hint,
            )
        if found := describe_disagreement(comparison):
            return replace(found, evidence={**found.evidence, **seen}, hint=hint)
    return None


def _how_altered(altered: Sequence[str]) -> tuple[str, Mapping[str, str]]:
    """Return a hint and evidence about a ``ctx`` attribute that ``backward`` changes."""
    if not altered:
        return "", {}
    attribute, what, copy = altered
    if what == AN_ITERATOR:
        return _USED_UP.format(attribute), {"attribute": attribute}
    first = f"changes `{attribute}` ({what})" if what else f"deletes `{attribute}`"
    instead = f"change a copy, such as `{copy}`" if copy else "leave the attribute as it is"
    return _ALTERED.format(first, instead), {"attribute": attribute, "copy": copy}


_ALTERED = (
    "The first pass {}. With `retain_graph=True`, autograd calls `backward` again with the same "
    "`ctx`, so {}."
)
_USED_UP = (
    "`{}` is an iterator. The first pass has used it up, and the second one gets nothing from it. "
    "Store a list."
)


# --------------------------------------------------------------------------------------------------
# Rules about repetition. If two runs of the same call differ, other comparisons are meaningless.
# --------------------------------------------------------------------------------------------------

COMPARISONS = (
    "linearity", "values", "layout", "order", "transforms", "shared-state", "not-reentrant",
    "tensor-on-ctx",
)  # fmt: skip


@rule(
    "nondeterministic",
    "state",
    "error",
    "two runs of the same call differ",
    hint="Find a value that changes although the arguments and the seeds stay the same, such as "
    "uninitialized memory, a counter, the time, or a random number from a generator that is not "
    "seeded.",
    lesson="04_debugging_clinic",
    after=("contract",),
    explains=(*COMPARISONS, "rng-not-restored"),
    by_design=(*COMPARISONS, "rng-not-restored"),
)
def nondeterministic(evidence: Evidence) -> Match | None:
    return _unwritten(evidence) or _differing(evidence) or _rounding(evidence)


def _differing(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "repeated"):
        if place := furthest(comparison):
            name, witness = _witness(comparison, place, "in one call, {} in the next")
            return Match(f"{name} changes {comparison.how}.", {"witness": witness})
    return None


def _unwritten(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "filled"):
        if place := furthest(comparison):
            k, index = place
            actual = comparison.actual[k]
            if actual is not None and actual.dim() == len(index) and bool(actual[index].isnan()):
                name = comparison.names[k]
                return Match(
                    f"{name} contains uninitialized memory.",
                    {"witness": f"{element(name, index)}: an uninitialized value from torch.empty"},
                )
    return None


def _rounding(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "repeated"):
        for name, actual, expected in zip(
            comparison.names, comparison.actual, comparison.expected, strict=True
        ):
            off = distance(actual, expected)
            if off is not None and bool(off.any()):
                return Match(
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
    lesson="07_memory_patterns",
    after=("contract",),
    explains=COMPARISONS,
    by_design=COMPARISONS,
)
def rng_not_restored(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "reseeded"):
        if (place := furthest(comparison)) and not any(comparisons(evidence, "redrawn")):
            name, witness = _witness(comparison, place, "for one seed, {} for another")
            return Match(
                f"`backward` draws random numbers. {sentence(name)} changes {comparison.how}.",
                {"witness": witness},
                hint="Draw random numbers in `forward` and save them for `backward`.",
            )
    for comparison in comparisons(evidence, "redrawn"):
        if place := furthest(comparison):
            name, witness = _witness(
                comparison, place, "with new random numbers, {} with those of `forward`"
            )
            return Match(
                "`backward` draws new random numbers instead of reusing those of `forward`. "
                f"{sentence(name)} changes {comparison.how}.",
                {"witness": witness},
            )
    return None


def _witness(comparison: Comparison, place: Place, both: str) -> tuple[str, str]:
    """Return the name of a tensor, and text that shows the two values of one element."""
    k, index = place
    plain, other = (
        format_element(comparison.expected[k], index),
        format_element(comparison.actual[k], index),
    )
    return comparison.names[
        k
    ], f"{element(comparison.names[k], index)}: {plain} {both.format(other)}"


# --------------------------------------------------------------------------------------------------
# Rules about captured tensors and modules, which a Function uses but does not take as arguments.
# --------------------------------------------------------------------------------------------------


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
def captured_tensor(evidence: Evidence) -> Match | None:
    lost = [captured for captured in evidence.memory.captured if captured.slope > 0]
    if not lost:
        return None
    names, one = [captured.name for captured in lost], len(lost) == 1
    does = (
        ("tensor", "requires", "affects", "gets")
        if one
        else ("tensors", "require", "affect", "get")
    )
    what, requires, affects, gets = does
    return Match(
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
    lesson="07_memory_patterns",
    after=("contract",),
)
def recompute_side_effect(evidence: Evidence) -> Match | None:
    comparison = next(comparisons(evidence, "recomputed"), None)
    place = furthest(comparison) if comparison else None
    if comparison is None or place is None:
        return None
    k, index = place
    forth, back = (
        format_element(comparison.expected[k], index),
        format_element(comparison.actual[k], index),
    )
    return Match(
        f"`forward` updates the buffer `{comparison.names[k]}`, and `backward` updates it again.",
        {
            "buffers": list(comparison.names),
            "witness": f"{element(comparison.names[k], index)}: {forth} after forward, "
            f"{back} after backward",
        },
    )


# --------------------------------------------------------------------------------------------------
# Rules about ctx: what it stores, how backward reads it, and which references keep it alive.
# --------------------------------------------------------------------------------------------------


@rule(
    "tensor-on-ctx",
    "state",
    "warning",
    "a tensor is kept as an attribute of ctx",
    hint="Save tensors with `ctx.save_for_backward`, so that autograd can check them for in-place "
    "changes and free them. Use attributes of `ctx` for numbers, shapes and flags.",
    lesson="02_ctx_rules",
    after=("contract",),
)
def tensor_on_ctx(evidence: Evidence) -> Match | None:
    if not evidence.memory.on_ctx:
        return None
    names = {"attributes": [kept.name for kept in evidence.memory.on_ctx]}
    for kept in evidence.memory.on_ctx:
        edited = kept.edited
        stale = describe_disagreement(edited) if edited and not edited.failure else None
        if stale:
            return Match(
                f"{_kept(evidence, kept)}. {sentence(stale.message.removesuffix('.'))}, and "
                "PyTorch raises no error.",
                {**names, **stale.evidence},
                severity="error",
            )
    kept = next((kept for kept in evidence.memory.on_ctx if kept.role), evidence.memory.on_ctx[0])
    # The caller can change an input or output in place. Other tensors on ctx only cost memory.
    severity: Severity = "warning" if kept.role else "info"
    return Match(f"{_kept(evidence, kept)}{_drawback(kept)}", names, severity)


def _kept(evidence: Evidence, kept: OnCtx) -> str:
    whose = {"input": f"the argument `{kept.owner}`", "output": kept.owner}.get(kept.role, "")
    what = whose if kept.owner else f"an {kept.role or 'intermediate result'}"
    inside = "" if evidence.is_function else f" in `{kept.function}`"
    is_cycle = kept.role == "output" and evidence.memory.outlived
    cycle = ", which creates a reference cycle" if is_cycle else ""
    return f"`{kept.name}`{inside} stores {what} as an attribute{cycle}"


def _drawback(kept: OnCtx) -> str:
    unseen = "saved-tensor hooks do not see it"
    if kept.role:
        return f". PyTorch does not check this tensor for in-place changes, and {unseen}."
    return f". PyTorch does not free this tensor after `backward`, and {unseen}."


@rule(
    "ctx-cycle",
    "state",
    "warning",
    "ctx is part of a reference cycle",
    hint="Look for something on `ctx` that refers back to `ctx`, such as a function that uses it "
    "or an object that stores it. Store in that object the values that it needs, not `ctx`.",
    lesson="02_ctx_rules",
    after=("contract", "tensor-on-ctx"),
)
def ctx_cycle(evidence: Evidence) -> Match | None:
    if not evidence.memory.outlived or any(
        kept.role == "output" for kept in evidence.memory.on_ctx
    ):
        return None
    when = "The" if "backward" in evidence.memory.outlived else "If `backward` never runs, the"
    return Match(
        f"`ctx` is part of a reference cycle. {when} graph and its saved tensors stay in memory "
        "until the garbage collector runs.",
        {"after": list(evidence.memory.outlived)},
    )


@rule(
    "saved-twice",
    "state",
    "warning",
    "backward unpacks its saved tensors more than once",
    hint="Unpack `ctx.saved_tensors` once and reuse the result. Each access unpacks every tensor "
    "again, so a hook that offloads saved tensors copies each of them again.",
    lesson="07_memory_patterns",
    after=("contract",),
)
def saved_twice(evidence: Evidence) -> Match | None:
    if evidence.memory.unpacked < 2:
        return None
    return Match(
        f"`backward` reads `ctx.saved_tensors` {evidence.memory.unpacked} times. This raises an "
        "error under `torch.utils.checkpoint` with `use_reentrant=False`.",
        {"times": evidence.memory.unpacked},
    )
