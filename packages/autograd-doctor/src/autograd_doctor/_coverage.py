"""Describe what a diagnosis examined beyond the usual checks, and what it could not examine.

A ✓ means that ``diagnose`` compared the gradients with the expected gradients. If the comparison
was not possible, the report gives the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._collect import changed_numbers, kinks_in
from autograd_doctor._inputs import hides_mistakes
from autograd_doctor._numerics.projection import projections_agree
from autograd_doctor._numerics.structure import structure_of
from autograd_doctor._probes import ALWAYS, PROBES, Level
from autograd_doctor._reference import SHORT, in_16_bits
from autograd_doctor._rules import RULES
from autograd_doctor._rules.rule import what_was_raised
from autograd_doctor.evidence import RANDOM, REFUSED, Evidence, Failure
from autograd_doctor.formatting import number

# If the user declares one of these rules, the expected gradient differs from the usual one and is
# unknown.
LEAVES_VALUES_OPEN = (
    "gradient-mismatch",
    "extra-gradient",
    "undeclared-surrogate",
    "non-finite",
)
# If the user declares one of these rules, ``diagnose`` cannot compare two results.
PREVENTS_COMPARISON = ("forward-mismatch", "nondeterministic", "rng-not-restored")


_CONTRACT, _LINEARITY, _VALUES = (
    "the contract",
    "linearity in `grad_output`",
    "values in the range of your inputs",
)
_STANDARD = (
    "memory layouts, batches, frozen and empty inputs, float32 and its overflow",
    "state, memory, second derivatives, `jvp` and `vmap` where defined",
)
_FULL = "autocast, `torch.compile`, `torch.func`, whether a Function is needed"
# A description of what each probe examines. If a Function is slow, ``diagnose`` skips some probes.
_OF_PROBES = {
    "repetition": "state",
    "rows": "values",
    "resized": "other lengths",
    "unused": "values",
    "dim_argument": "dim arguments",
    "batch_dimension": "batches",
    "grad_output_layout": "memory layouts",
    "input_layout": "memory layouts",
    "frozen_input": "frozen inputs",
    "zero_dim": "0-dim inputs",
    "extremes": "overflow",
    "float32_steps": "float32",
    "captured": "state",
    "recomputation": "state",
    "second_backward": "a second backward pass",
    "earlier_calls": "state",
    "on_ctx": "attributes of `ctx`",
    "cycles": "memory",
    "unpacking": "memory",
    "second_order": "second derivatives",
    "require_second_order": "second derivatives",
    "forward_mode": "`jvp`",
    "reverse_over_forward": "`jvp`",
    "vmapped": "`vmap`",
    "fake_implementation": "fake implementations",
    "wasted_gradients": "memory",
    "kept": "memory",
    "autocast": "autocast",
    "compiled": "`torch.compile`",
    "own_views": "views",
    "old_style": "`torch.func`",
    "plain": "whether a Function is needed",
}


def examined(
    level: Level, seen: Sequence[Evidence], intentional: Collection[str], missing: Sequence[str]
) -> tuple[str, ...]:
    """Describe what ``diagnose`` examined. ``missing`` is the result of :func:`unexamined`."""
    if missing and nothing_compared(seen[0], intentional):
        return (_CONTRACT, *by_design(seen[0], intentional))
    some = len(missing) < len(seen[0].wanted)
    first = ", ".join((_CONTRACT, _LINEARITY, *[_VALUES] * some))
    full = [_FULL] * (level == "full")
    further = [*_STANDARD, *full]
    if left_out := (*seen[0].left_out, *_left_out_on_a_device(seen[0])):
        missed = _words_of(left_out)
        names = [look.__name__ for look in (*ALWAYS, *PROBES[level])]
        further = [", ".join(word for word in _words_of(names) if word not in missed)]
    return (first, *further, *by_design(seen[0], intentional))


def without_time(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence listing the probes that ``diagnose`` skipped for lack of time."""
    if names := evidence.left_out:
        yield f"less than usual, because a pass takes long. Left out: {', '.join(_words_of(names))}"


ON_THE_CPU = ("batch_dimension", "dim_argument", "zero_dim", "extremes")


def _left_out_on_a_device(evidence: Evidence) -> tuple[str, ...]:
    return ON_THE_CPU if evidence.needs_device else ()


def without_cpu(evidence: Evidence) -> Iterator[str]:
    """If the Function needs a GPU, yield a sentence about the checks that run only on the CPU."""
    if names := _left_out_on_a_device(evidence):
        yield (
            f"no calls that could make an index invalid ({', '.join(_words_of(names))}), because "
            "your Function does not run on the CPU"
        )


def without_some_calls(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each kind of call that raises an error or takes too long."""
    if any(it.kind == REFUSED for it in evidence.variants.comparisons):
        yield "no empty batch, because `forward` raises an error for it"
    if (largest := evidence.variants.unfinished) is not None:
        yield f"no numbers as large as {number(largest)}, because a pass then takes more than 1 s"


def without_half(args: Sequence[Any]) -> Iterator[str]:
    """Yield a sentence for each 16-bit floating-point dtype among the example's inputs."""
    dtypes = {it.dtype for it in args if isinstance(it, Tensor)}.intersection(SHORT)
    for name in sorted(str(dtype).removeprefix("torch.") for dtype in dtypes):
        yield f"no values in {name}: the inputs are converted to float64 and float32"


def _words_of(probes: Collection[str]) -> list[str]:
    return [*dict.fromkeys(_OF_PROBES[name] for name in probes)]


def by_design(evidence: Evidence, intentional: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each declared rule that the Function breaks.

    Yield another sentence if ``diagnose`` compared gradients only for a limited range of
    ``grad_output``.
    """
    for name in RULES:
        if name in intentional and (finding := RULES[name](evidence)) is not None:
            yield f"{name}, by design: {finding.message}"
    if evidence.values.cotangent_range:
        yield f"values only for `grad_outputs` {evidence.values.cotangent_range}"


def unexamined(seen: Sequence[Evidence], intentional: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each gradient that ``diagnose`` did not compare with expected values.

    ``seen`` starts with the evidence from the caller's example. The evidence from other inputs
    follows.
    """
    if reason := nothing_compared(seen[0], intentional):
        yield f"values: not examined. {reason}"
        return
    for slot, position in enumerate(seen[0].wanted):
        name = seen[0].name(position)
        if rule := _left_open(seen[0], name, intentional):
            yield (
                f"values of `{name}`: not examined. You declared `{rule}`, so `diagnose` does not "
                "know which gradient is right. Pass `surrogate=f`, where `f` is the "
                "differentiable function whose gradient `backward` returns."
            )
        elif not any(_compared(evidence, slot) for evidence in seen):
            yield (
                f"values of `{name}`: not examined. `forward` is not differentiable at any element "
                "that `diagnose` tried."
            )


def nothing_compared(evidence: Evidence, intentional: Collection[str]) -> str:
    """Explain why ``diagnose`` did not compare any gradient. Return ``""`` if it compared one."""
    if (failed := evidence.forward.failure) and failed.runs_in_own_dtype:
        return _float64_alone("forward", failed)
    calls = (evidence.contract.direct, evidence.values.vjps.get(RANDOM))
    for failed in (call.failure for call in calls if call):
        if failed and failed.runs_in_own_dtype:
            return _float64_alone("backward", failed)
    if (
        in_16_bits(evidence)
        and evidence.values.reference_outputs is None
        and not evidence.values.surrogate
    ):
        return (
            "`forward` returns 16-bit numbers, which are too coarse for finite differences. "
            "Pass `reference=f`, where `f` is a differentiable function with the same values."
        )
    forward = evidence.forward
    if not (evidence.is_function or forward.custom_node or forward.backward_inside):
        return "The callable uses no custom Function, so there is no custom `backward` to check."
    if evidence.values.cotangent_range is None:
        if "ignores-grad-output" in intentional:
            return (
                "You declared that `backward` adds something to the gradient or ignores "
                "`grad_output`. Where `grad_output` is 1, `backward` does not return the gradient "
                "of `forward`."
            )
        return (
            "`backward` is not linear in `grad_output` for any `grad_output` that `diagnose` tried."
        )
    for rule in PREVENTS_COMPARISON:
        if rule in intentional and RULES[rule](evidence) is not None:
            return f"You declared `{rule}`, so `diagnose` cannot compare results."
    return ""


def _float64_alone(stage: str, failure: Failure) -> str:
    """Describe a failure on float64 copies that does not occur on the caller's inputs."""
    copies = "`diagnose` works on float64 copies of the inputs."
    if not failure.kind:
        return f"{copies} For these, {failure.text} than for your inputs."
    said = what_was_raised(failure).rstrip(".")
    return f"{copies} On these, `{stage}` {said}. On your inputs, `{stage}` runs."


def _left_open(evidence: Evidence, name: str, intentional: Collection[str]) -> str:
    """Return the declared rule that makes the expected gradient of an input unknown."""
    for rule in LEAVES_VALUES_OPEN:
        finding = RULES[rule](evidence) if rule in intentional else None
        if finding is not None and name in finding.evidence.get("inputs", ()):
            return rule
    return ""


def _compared(evidence: Evidence, slot: int) -> bool:
    """Return whether ``diagnose`` compared any element of a gradient, or the gradient is empty."""
    if not evidence.inputs[evidence.wanted[slot]].numel() or projections_agree(evidence):
        return True
    if evidence.values.inexact:
        return True
    expected = evidence.values.expected.get(RANDOM)
    return expected is not None and not bool(torch.isnan(expected[slot].value).all())


def avoided_kinks(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each input whose elements ``diagnose`` moved away from a kink."""
    for position, kinks in zip(evidence.wanted, kinks_in(evidence), strict=False):
        if len(kinks) and structure_of(evidence.inputs[position]) is None:
            total = evidence.inputs[position].numel()
            yield (
                f"`{evidence.name(position)}` near kinks: `forward` is not differentiable at "
                f"{len(kinks)} of its {total} elements, so these were moved slightly"
            )


def kept_structures(seen: Sequence[Evidence]) -> Iterator[str]:
    """Yield a sentence for each input whose structure ``diagnose`` kept in all variations."""
    words = {name: words for each in seen for name, words in each.values.structures.items()}
    unread = {name for each in seen for name in each.values.unread}
    for name, structure in words.items():
        said = f"`{name}` only for changes that keep the structure of your example ({structure})"
        if name in unread:
            said += (
                "; `forward` does not read the other elements, so their gradient should be 0, but "
                "it is not"
            )
        yield said


def coarse_values(seen: Sequence[Evidence]) -> Iterator[str]:
    """Yield a sentence if an inexact forward made the comparison of gradients inexact."""
    if off := max(evidence.values.inexact for evidence in seen):
        yield f"values only to {100 * off:.1g} %, because `forward` is inexact"


def blind_spots(seen: Sequence[Evidence]) -> Iterator[str]:
    """Yield a sentence for each value that is the same in all inputs and may hide a mistake.

    Integers and masks keep the values of the example, because other values may be invalid.
    """
    example = seen[0]
    changed = {name for each in seen for name in changed_numbers(example, each)}
    for position, value in enumerate(example.inputs):
        if hides_mistakes(value) and (name := example.name(position)) not in changed:
            what = "term with" if value == 0 else "factor"
            yield f"`{name}` only at {value:g}, where a missing {what} `{name}` does not show"
        if isinstance(value, Tensor) and value.numel() > 1 and (what := _too_regular(value)):
            yield f"`{example.name(position)}` only {what}"


def _too_regular(value: Tensor) -> str:
    """Explain how the values of a mask or an index may hide a mistake, or return ``""``."""
    if value.dtype == torch.bool:
        every = value.all().item()
        return f"with {every} everywhere" if every or not value.any() else ""
    whole = not value.is_floating_point() and not value.is_complex()
    if whole and value.unique().numel() == value.numel():
        return "without equal values, so a sum at a repeated index does not show"
    return ""
