"""Rules about forward mode, ``torch.func``, ``torch.compile`` and autocast."""

from __future__ import annotations

from dataclasses import replace

from autograd_doctor._rules.rule import (
    Match,
    comparisons,
    describe_disagreement,
    disagreement,
    format_element,
    furthest,
    raised,
    rule,
    what_was_raised,
)
from autograd_doctor.evidence import Comparison, Evidence, Failure
from autograd_doctor.formatting import element, listed, number, plain, quoted

# --------------------------------------------------------------------------------------------------
# Rules about transforms: forward mode, vmap, torch.compile, torch.func.
# --------------------------------------------------------------------------------------------------

FIRST_ORDER = ("contract", "linearity", "values", "state")
NOT_KEPT = (
    "Call `ctx.save_for_forward` with the tensors that `jvp` needs: in `jvp`, `ctx.saved_tensors` "
    "does not hold the tensors passed to `ctx.save_for_backward`."
)
SAVED_FOR_FORWARD = (
    "In `jvp`, `ctx.saved_tensors` holds only the tensors passed to `ctx.save_for_forward`."
)
SAVED_APART = (
    "Call `ctx.save_for_forward` with the same tensors as `ctx.save_for_backward`, in the same "
    "order: a generated `vmap` rule keeps one list of batch dims for both."
)
# Fragments of functorch's error messages if the numbers of outputs and batch dims differ.
NO_AXIS_KEPT = ("flat_bdims must not be None", "SmallVector unable to grow")
TANGENT_CHANGED = (
    "Compute a new tensor (`x_tangent * cos`, not `x_tangent *= cos`): other operations on the "
    "same input read this tangent too."
)
FORMULA = (
    "Write the tangent as a formula in the saved tensors and the input tangents: `jvp` runs inside "
    "forward mode, and PyTorch cannot nest forward mode there."
)
NESTED = "Nested forward mode AD"
NO_GRAPH = (
    "Return the result of the Function's own `apply` from `vmap`, with the batch dim first and "
    "grad mode unchanged: what `vmap` returns now has no graph."
)
USERS_EXCEPTION = "Observed exception"  # Dynamo's message if the traced code raises an exception


@rule(
    "wrong-jvp",
    "transforms",
    "error",
    "jvp and backward are not transposes of each other",
    hint="Return one tangent for each output from `jvp`. For each input, multiply the derivative "
    "by the tangent of that input, and add the products. Compare `jvp` with `backward` term by "
    "term.",
    lesson="11_torch_func",
    after=FIRST_ORDER,
)
def wrong_jvp(evidence: Evidence) -> Match | None:
    seen = next(filter(None, map(_match_jvp, comparisons(evidence, "jvp"))), None)
    return seen or next(filter(None, map(_match_tangent, comparisons(evidence, "tangent"))), None)


def _match_tangent(comparison: Comparison) -> Match | None:
    seen = describe_disagreement(comparison)
    return seen and replace(
        seen,
        message=f"the `jvp` method changes {comparison.names[0]} in place.",
        hint=TANGENT_CHANGED,
    )


def _match_jvp(comparison: Comparison) -> Match | None:
    if comparison.failure:
        seen = describe_disagreement(comparison)
        if seen and "saved_tensors" in comparison.failure.line:
            message = f"{seen.message.rstrip('.')}. {SAVED_FOR_FORWARD}"
            return replace(seen, message=message, hint=NOT_KEPT)
        nested = NESTED in comparison.failure.text
        return replace(seen, hint=FORMULA) if seen and nested else seen
    if furthest(comparison) is None:
        return None
    actual, expected = (
        number(plain(value)) for (value,) in (comparison.actual, comparison.expected)
    )
    return Match(
        f"`jvp` and `backward` give different derivatives of {comparison.names[0]} "
        f"{comparison.how}.",
        {"witness": f"⟨grad_output, jvp(v)⟩ = {actual}, ⟨backward(grad_output), v⟩ = {expected}"},
    )


@rule(
    "silent-reverse-over-forward",
    "transforms",
    "warning",
    "the derivative of jvp's tangent is wrong, without an error",
    hint="Build the tangent from saved inputs and outputs, without `.detach()`, `.data` or "
    "`.numpy()`. When reverse mode runs over forward mode, as in `jacrev` of `jacfwd`, PyTorch "
    "differentiates the operations of `jvp`. It treats an intermediate result that `forward` "
    "stored on `ctx` as a constant.",
    lesson="11_torch_func",
    after=(*FIRST_ORDER, "order", "wrong-jvp"),
)
def silent_reverse_over_forward(evidence: Evidence) -> Match | None:
    seen = next(filter(None, map(_match_graph, comparisons(evidence, "tangent graph"))), None)
    return seen and replace(seen, severity="error" if evidence.second_order_required else None)


def _match_graph(comparison: Comparison) -> Match | None:
    place = furthest(comparison)
    if place is None:
        return None
    (name,), (actual,), (expected,) = comparison.names, comparison.actual, comparison.expected
    known = actual is not None and bool(actual.any())
    what, left = ("contains only part of", "wrong") if known else ("does not contain", "zero")
    one, other = (format_element(value, place[1]) for value in (actual, expected))
    where = element(name, place[1])
    return Match(
        f"the tangent that `jvp` returns depends on `{name}`, but its graph {what} this "
        f"dependence. So the derivative that PyTorch computes from this graph is {left}, and "
        "PyTorch raises no error.",
        {"witness": f"derivative of ⟨g, jvp(v)⟩ with respect to {where}: {one}, should be {other}"},
    )


@rule(
    "wrong-vmap",
    "transforms",
    "error",
    "torch.func.vmap and a loop give different results",
    hint="In `vmap`, move the batch dim of each tensor to the front. The entry in `in_dims` says "
    "where it is, or is None if the tensor has no batch dim. Return the position of the batch dim "
    "in the outputs as `out_dims`. If you set `generate_vmap_rule`, use only PyTorch operations on "
    "tensors, or remove this line if you do not need `vmap`.",
    lesson="11_torch_func",
    after=(*FIRST_ORDER, "layout"),
)
def wrong_vmap(evidence: Evidence) -> Match | None:
    for comparison in comparisons(evidence, "vmap"):
        if seen := describe_disagreement(comparison):
            return replace(seen, hint=_vmap_hint(comparison))
    return None


def _vmap_hint(comparison: Comparison) -> str:
    """Return a hint for this comparison, or ``""`` if the rule's default hint fits."""
    if comparison.failure:
        apart = any(text in comparison.failure.text for text in NO_AXIS_KEPT)
        return SAVED_APART if apart else ""
    place = furthest(comparison)
    arrives_nowhere = place is not None and comparison.actual[place[0]] is None
    return NO_GRAPH if arrives_nowhere else ""


@rule(
    "compile-mismatch",
    "transforms",
    "warning",
    "torch.compile and eager mode differ",
    hint="Remove branches that depend on tensor values, print calls, changes to state outside "
    "`ctx`, and calls to `torch.autograd.grad`: `torch.compile` traces `forward` and `backward` "
    "with tensors that have no values. To raise an error that depends on values, use "
    "`torch._assert_async`. Move code that `torch.compile` cannot trace, such as a call into "
    "another library, into a custom operator (`torch.library.custom_op`). Or keep the graph break: "
    "decorate the function that calls the Function with `torch.compiler.disable`.",
    lesson="12_compile_and_operators",
    after=FIRST_ORDER,
)
def compile_mismatch(evidence: Evidence) -> Match | None:
    comparison = next(comparisons(evidence, "compile"), None)
    fake = evidence.variants.fake_call
    for output, what, said, found in fake.differences if fake else ():
        which = "the output" if len(evidence.forward.outputs) == 1 else f"output {output}"
        return Match(
            f"the operator returns {which} with {what} {found}, but its fake implementation says "
            f"{said}. `torch.compile` and `torch.export` trust the fake implementation, so their "
            "code raises an error or computes wrong numbers.",
            {"output": output, "differs": what, "fake": said, "real": found},
            hint="Make both agree in shape, dtype, device and strides. For example, end the "
            "operator with `torch.empty_like(x).copy_(result)` if its fake implementation returns "
            "`torch.empty_like(x)`. `torch.library.opcheck` also checks this.",
        )
    if fake and fake.failure and comparison and comparison.failure:
        missing = "no fake impl" in fake.failure.text
        why = (
            "it has no fake implementation."
            if missing
            else f"its fake implementation {what_was_raised(fake.failure)}"
        )
        return Match(
            f"`torch.compile` cannot trace the operator, because {why}",
            raised(fake.failure),
            hint="Register a fake implementation with `register_fake`. It must return empty "
            "tensors with the shape, dtype, device and strides of the result, and must not read "
            "values.",
        )
    if comparison is None or comparison.failure is None:
        return disagreement(evidence, "compile")
    return Match(
        "`torch.compile` cannot trace the call into a single graph: "
        f"{comparison.failure.text or comparison.failure.kind}",
        raised(comparison.failure),
        hint=_left_to_defaults(evidence, comparison.failure) or _of_sizes(comparison.failure),
    )


def _of_sizes(failure: Failure) -> str:
    """Return a hint if the size of a result depends on tensor values."""
    if "unbacked symbol" not in failure.text.lower():
        return ""
    return (
        "The size of a result depends on the values of a tensor, as in `x[mask]`, `nonzero`, "
        "`unique` or `bincount`. Use an operation whose result has a known size, such as "
        "`torch.where`, a product with the mask, or `x.new_zeros(n).index_add(0, index, x)`."
    )


def _left_to_defaults(evidence: Evidence, failure: Failure) -> str:
    """Return a hint if ``setup_context`` gets fewer inputs in traced code than in eager mode."""
    in_setup = failure.line.partition(":")[0] in ("", "setup_context")  # not in forward
    raises = in_setup and failure.text.startswith(USERS_EXCEPTION)
    if not evidence.omitted or evidence.contract.old_style or not raises:
        return ""
    names = listed(quoted(evidence.omitted))
    return (
        f"Pass {names} as well: when `torch.compile` traces `setup_context`, it leaves out "
        "`forward`'s defaults."
    )


@rule(
    "func-incompatible",
    "transforms",
    "info",
    "torch.func transforms raise an error",
    hint="Move everything that uses `ctx` into `setup_context(ctx, inputs, output)`, and remove "
    "`ctx` from `forward`. Return every intermediate result that `backward` needs as an extra "
    "output.",
    lesson="11_torch_func",
    after=("contract",),
)
def func_incompatible(evidence: Evidence) -> Match | None:
    if not evidence.contract.old_style:
        return None
    names = " and ".join(quoted(evidence.contract.old_style))
    return Match(
        f"in {names}, `forward` takes `ctx` as an argument, so `torch.func` transforms (`grad`, "
        "`vmap`, `jvp` and others) raise an error."
    )


# --------------------------------------------------------------------------------------------------
# Rules about mixed precision: forward runs under autocast, and backward runs outside it.
# --------------------------------------------------------------------------------------------------


@rule(
    "autocast",
    "layout",
    "warning",
    "the call fails or changes under autocast",
    hint="Decorate `forward` with `torch.amp.custom_fwd(device_type=…, cast_inputs=torch.float32)` "
    "and `backward` with `torch.amp.custom_bwd(device_type=…)`, so that both run in float32. "
    "Without these decorators, autocast computes the matrix products of `forward` in low "
    "precision, and their dtype differs from that of the saved tensors. If your Function has a "
    "separate `setup_context`, convert the inputs in `forward` and `grad_output` in `backward` "
    "instead.",
    lesson="12_compile_and_operators",
    after=("contract", "linearity", "values", "layout"),
)
def autocast(evidence: Evidence) -> Match | None:
    found = disagreement(evidence, "autocast")
    if found and "::" in evidence.subject:
        return replace(found, hint=OF_OPERATORS)
    return found


OF_OPERATORS = (
    "Call `register_autocast(device_type, torch.float32)` on the operator, so that it runs in "
    "float32."
)
