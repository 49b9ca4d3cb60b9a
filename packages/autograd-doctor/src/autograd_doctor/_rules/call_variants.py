"""Rules about memory layouts, frozen inputs, empty batches and 0-dim tensors."""

from __future__ import annotations

from dataclasses import replace

from autograd_doctor._rules.rule import (
    Match,
    comparisons,
    describe_disagreement,
    disagreement,
    furthest,
    rule,
)
from autograd_doctor.evidence import Evidence

# --------------------------------------------------------------------------------------------------
# Rules about memory layouts, which must not affect any result.
# --------------------------------------------------------------------------------------------------


@rule(
    "grad-output-layout",
    "layout",
    "error",
    "backward depends on grad_output's memory layout",
    hint="Do not assume that `grad_output` is contiguous: after a sum, for example, it is a "
    "single number expanded to a shape. Call `reshape` instead of `view`, and call "
    "`.contiguous()` before you use `as_strided` or a raw pointer.",
    lesson="04_debugging_clinic",
    after=("contract", "linearity"),
)
def grad_output_layout(evidence: Evidence) -> Match | None:
    return disagreement(evidence, "grad-output-layout")


@rule(
    "input-layout",
    "layout",
    "error",
    "the result depends on an input's memory layout",
    hint="Do not assume contiguous inputs: a transpose or a slice has different strides. Check "
    "every `view`, `as_strided`, raw pointer and buffer in `forward` and `backward`, or call "
    "`.contiguous()` first.",
    lesson="14_external_code",
    after=("contract", "linearity"),
)
def input_layout(evidence: Evidence) -> Match | None:
    refused = None
    for comparison in comparisons(evidence, "input-layout"):
        seen = describe_disagreement(comparison)
        if seen and comparison.stage != "forward":
            return seen
        refused = refused or seen
    return refused and replace(refused, severity="warning")  # users notice this error


# --------------------------------------------------------------------------------------------------
# Rules about requires_grad. The caller chooses which inputs get a gradient.
# --------------------------------------------------------------------------------------------------


@rule(
    "frozen-input",
    "layout",
    "error",
    "backward fails or changes when an input is frozen",
    hint="Compute a gradient only if the `ctx.needs_input_grad` flag of its input is set. Save the "
    "tensors for this gradient under the same condition. Any combination of flags can occur.",
    lesson="02_ctx_rules",
    after=("contract", "linearity", "values"),
)
def frozen_input(evidence: Evidence) -> Match | None:
    seen = disagreement(evidence, "frozen-input")
    if seen is None:
        return None
    if "incorrect number of gradients" in seen.message:
        return replace(seen, hint=_ONE_FOR_EACH)
    for comparison in comparisons(evidence, "frozen-input"):
        if place := furthest(comparison):
            if comparison.actual[place[0]] is None:
                name = comparison.names[place[0]]
                return replace(seen, message=f"{name} is None {comparison.how}.")
            break
    return seen


_ONE_FOR_EACH = (
    "Return one value for each argument of `forward` on every path through `backward`: None for "
    "each gradient that is not needed."
)


# --------------------------------------------------------------------------------------------------
# Rules about shapes: tensors without elements, and tensors without dims.
# --------------------------------------------------------------------------------------------------

_AFTER = ("contract", "linearity", "forward-mismatch", "values")


@rule(
    "zero-size",
    "layout",
    "warning",
    "backward does not handle an empty batch",
    hint="Handle an empty batch, which a filter or a short last shard can produce. Each gradient "
    "must have the shape of its input, and the gradient of an input that all elements of the batch "
    "share, such as a weight, must be zero.",
    lesson="15_ship_it",
    after=_AFTER,
)
def zero_size(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "zero-size"):
        seen, place = describe_disagreement(comparison), furthest(comparison)
        if seen is None or place is None:
            return seen
        return replace(seen, message=f"{comparison.names[place[0]]} is not zero {comparison.how}.")
    return None


@rule(
    "zero-dim",
    "layout",
    "error",
    "backward does not handle 0-dim tensors",
    hint="Make `backward` handle 0-dim tensors as `forward` does. Look for code that needs at "
    "least one dim, such as a loop, an index, len or a matrix product.",
    lesson="15_ship_it",
    after=_AFTER,
)
def zero_dim(evidence: Evidence) -> Match | None:
    return disagreement(evidence, "zero-dim")
