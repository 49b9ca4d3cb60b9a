"""Rules about ``forward``: whether it follows autograd's contract and returns correct values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import size
from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._rules.regions import common_factor, slice_of
from autograd_doctor._rules.rule import (
    Match,
    call,
    disagreement,
    dtype_name,
    raised,
    rule,
    what_was_raised,
)
from autograd_doctor.evidence import DIRTY_NOT_RETURNED, RETURNED_AND_SAVED, Evidence
from autograd_doctor.finding import Severity
from autograd_doctor.formatting import elements, number, plain, plural, quoted

# --------------------------------------------------------------------------------------------------
# Rules about how forward treats its inputs, its ctx and its outputs.
# --------------------------------------------------------------------------------------------------


@rule(
    "missing-staticmethod",
    "contract",
    "error",
    "forward or backward is an instance method",
    hint="Decorate `forward` and `backward` with `@staticmethod` and remove self: PyTorch calls "
    "them on the class, with `ctx` as the first argument.",
    lesson="01_template",
)
def missing_staticmethod(evidence: Evidence) -> Match | None:
    names = evidence.contract.instance_methods
    if not names:
        return None
    # only a warning if apply can call the method
    severity: Severity = "error" if evidence.forward.failure else "warning"
    methods = " and ".join(quoted(names))
    verb = (
        "is an instance method, but it must be a static method"
        if len(names) == 1
        else "are instance methods, but they must be static methods"
    )
    return Match(f"{methods} {verb}.", {"methods": list(names)}, severity)


@rule(
    "non-tensor-saved",
    "contract",
    "error",
    "save_for_backward gets something that is not a tensor",
    hint="Pass only tensors (or None) to save_for_backward. Keep numbers, shapes and flags as "
    "attributes: `ctx.name = value`.",
    lesson="02_ctx_rules",
)
def non_tensor_saved(evidence: Evidence) -> Match | None:
    failure = evidence.forward.failure
    found = failure and re.search(
        r"save_for_backward can only save variables, but argument (\d+) is of type (\S+)",
        failure.text,
    )
    if not found:
        return None
    place, kind = int(found[1]), found[2]
    return Match(
        f"`save_for_backward` got {'an' if kind[0] in 'aeiou' else 'a'} {kind} as argument "
        f"{place} (counting from 0), but it can save only tensors.",
        {"argument": place, "type": kind},
        hint=OF_A_TUPLE if kind in ("tuple", "list") else "",
    )


OF_A_TUPLE = (
    "Pass each tensor as an argument of its own, as in `ctx.save_for_backward(x, y)`. The `inputs` "
    "of setup_context are always a tuple, even for one input. Unpack it: `(x,) = inputs`."
)


@rule(
    "saved-tensors-in-forward",
    "contract",
    "error",
    "forward reads ctx.saved_tensors",
    hint="In `forward`, use the tensor itself instead. PyTorch fills `ctx.saved_tensors` only "
    "after `forward` has returned.",
    lesson="02_ctx_rules",
)
def saved_tensors_in_forward(evidence: Evidence) -> Match | None:
    if not evidence.forward.read_saved:
        return None
    separate = evidence.forward.read_saved == "setup_context"
    return Match(
        f"`{evidence.forward.read_saved}` reads `ctx.saved_tensors`, which is an empty tuple until "
        "it returns.",
        hint=IN_SETUP_CONTEXT if separate else "",
    )


IN_SETUP_CONTEXT = (
    "In `setup_context`, use `inputs` and `output` instead. PyTorch fills `ctx.saved_tensors` only "
    "after `setup_context` has returned."
)


@rule(
    "wrong-mark-dirty",
    "contract",
    "error",
    "mark_dirty does not match what forward did",
    hint="Call `ctx.mark_dirty` with exactly those inputs that `forward` changes in place, and "
    "return these same tensors from `forward`.",
    lesson="02_ctx_rules",
)
def wrong_mark_dirty(evidence: Evidence) -> Match | None:
    forward = evidence.forward
    unchanged = set(forward.dirty) - set(forward.changed) - set(forward.written)
    if forward.failure and DIRTY_NOT_RETURNED in forward.failure.text:
        if len(forward.dirty) != 1:
            return Match("`forward` marks an input as dirty but does not return it.")
        name = evidence.name(forward.dirty[0])
        if unchanged:
            return Match(
                f"`forward` marks `{name}` as dirty, but it neither changes nor returns this "
                "tensor.",
                hint=_REBINDS.format(name),
            )
        return Match(f"`forward` marks `{name}` as dirty but does not return it.")
    if unchanged:
        return Match(
            f"`forward` marks `{evidence.name(min(unchanged))}` as dirty but does not change it."
        )
    return None


_REBINDS = (
    "Change the input itself, as in `{0}.copy_(…)`, `{0}.mul_(…)` or `out={0}`, and return it: the "
    "assignment `{0} = …` only gives a new tensor the same name. Or leave out `ctx.mark_dirty`."
)


@rule(
    "mutates-input",
    "contract",
    "error",
    "forward changes an input in place without mark_dirty",
    hint="Compute into a new tensor, or call `ctx.mark_dirty(x)` and return `x` itself.",
    lesson="02_ctx_rules",
)
def mutates_input(evidence: Evidence) -> Match | None:
    if evidence.forward.failure:
        return None
    hidden = [i for i in evidence.forward.changed if i not in evidence.forward.dirty]
    # The doctor cannot see calls to mark_dirty inside a callable. If the callable returns a changed
    # input, the doctor assumes that a Function inside it marked the input as dirty.
    if not evidence.is_function:
        returned = {j for _, j in evidence.forward.views}
        hidden = [i for i in hidden if i not in returned]
    if not hidden:
        return None
    harmful = [i for i in hidden if not _may_be_statistics(evidence, i)]
    name = evidence.name((harmful or hidden)[0])
    seen = {"input": name, "line": evidence.forward.changing_line}
    if harmful:
        message = f"`forward` changes `{name}` in place but does not mark it as dirty."
        return Match(message, seen)
    message = (
        f"`forward` changes `{name}` in place but does not mark it as dirty (`{name}` does not "
        "require grad)."
    )
    return Match(message, seen, "warning", _STATISTICS)


_STATISTICS = (
    "Ignore this warning for running statistics, such as those of batch normalization. Any other "
    "tensor belongs to the caller: compute into a new tensor, or call `ctx.mark_dirty`."
)


def _may_be_statistics(evidence: Evidence, position: int) -> bool:
    """Return whether a changed input could be running statistics, as in batch normalization.

    Running statistics are floating-point tensors that do not require grad and whose version counter
    increases.
    """
    floating = is_float(evidence.inputs[position])
    return (
        floating and position not in evidence.wanted and position in evidence.forward.versions_moved
    )


@rule(
    "forward-raises",
    "contract",
    "error",
    "forward raises an exception",
    hint="Run `forward` alone on these inputs, and repair it before you look at any gradient.",
    lesson="04_debugging_clinic",
    after=("contract",),
)
def forward_raises(evidence: Evidence) -> Match | None:
    failure, own = evidence.forward.failure, evidence.contract.own
    where = dtype = ""
    if own and own.stage == "forward":
        failure, dtype = own.failure, own.dtype
        where = f"in {dtype}, the dtype of your inputs, "
    if failure is None or failure.runs_in_own_dtype:
        return None
    if evidence.forward.changed and RETURNED_AND_SAVED in failure.text:
        name = evidence.name(evidence.forward.changed[0])
        return Match(
            f"`forward` changes `{name}` in place and returns it but does not mark it as dirty, so "
            f"PyTorch {what_was_raised(failure)}",
            {**raised(failure), "call": call(evidence)},
            hint=f"Call `ctx.mark_dirty({name})`, and save the output. Do not save a view of "
            f"`{name}`, which PyTorch's message advises.",
        )
    return Match(
        f"{where}`forward` {what_was_raised(failure)}",
        {**raised(failure), "call": call(evidence, dtype)},
        hint=next((hint for said, hint in _WHAT_TO_DO.items() if said in failure.text), ""),
    )


# Fragments of PyTorch error messages, each with a hint on how to fix the mistake.
_WHAT_TO_DO = {
    "value of Tensor with more than one value": "To test whether an argument was passed, write "
    "`bias is not None`. To choose a value for each element, use `torch.where`. A Python if needs "
    "a single truth value, and this tensor has many elements.",
    RETURNED_AND_SAVED: "`forward` returns one of its inputs. If it changes this input in place, "
    "call `ctx.mark_dirty(x)` and save the output. Otherwise return a copy, `x.clone()`.",
}


@rule(
    "backward-never-called",
    "contract",
    "error",
    "the outputs are not connected to this Function's backward",
    hint="Call `F.apply(…)`, return the tensor that `apply` returned, and do not detach it. "
    "Autograd never calls a `backward` that you define on an `nn.Module`.",
    lesson="01_template",
    after=("contract",),
)
def backward_never_called(evidence: Evidence) -> Match | None:
    forward = evidence.forward
    if forward.failure:
        return None
    if not forward.outputs:
        what = ", ".join(forward.kinds)
        hint = {
            "NoneType": "Return the result from `forward`: a return statement seems to be missing.",
            "list": "Return several outputs as a tuple: return r, theta.",
        }.get(what, "")
        actual = f"{'a value' if len(forward.kinds) == 1 else 'values'} of type {what}"
        actual = "None" if what == "NoneType" else actual
        needed = f"`forward` returns {actual}, but it must return a tensor or a tuple of tensors."
        return Match(needed, {"returned": what}, hint=hint)
    if set(forward.marked_non_differentiable) == set(range(len(forward.outputs))):
        return None
    if not any(is_float(output) for output in forward.outputs):
        return None
    if not any(forward.requires_grad) and forward.backward_inside and not evidence.is_function:
        return Match(
            "no output requires grad. The gradients that the callable computes have no graph.",
            hint="Pass `create_graph=True` to `torch.autograd.grad`, and build `backward` from "
            "differentiable operations.",
        )
    if not any(forward.requires_grad):
        return Match("no output requires grad, so autograd never calls `backward`.")
    if not forward.custom_node and not forward.backward_inside:
        return Match(
            "the graph of the outputs contains no custom Function, so these are the gradients of "
            "plain autograd. If you wrote a `backward`, it never runs.",
            severity="error" if evidence.is_function else "warning",
        )
    return None


@rule(
    "returns-view",
    "contract",
    "warning",
    "an output is an input, or a view of one",
    hint="Return a new tensor, for example `x.clone()`. If the output is a view, PyTorch raises an "
    "error when the caller changes it in place, and the gradient of the output may bypass your "
    "`backward`.",
    lesson="02_ctx_rules",
    after=("mutates-input",),
)
def returns_view(evidence: Evidence) -> Match | None:
    alone = len(evidence.forward.outputs) == 1
    for output, source in evidence.forward.views:
        which = "the output" if alone else f"output {output}"
        return Match(f"{which} shares memory with `{evidence.name(source)}`.")
    for output in evidence.contract.own_views:
        which = "the output" if alone else f"output {output}"
        return Match(
            f"{which} is a view of a tensor that `forward` created, so changing it in place, for "
            "example with `relu_()`, raises an error.",
            severity="info",
            hint="If callers may change the output in place, compute it in its final shape "
            "(`x.sum(-1)` instead of `x.sum(-1, keepdim=True).squeeze(-1)`), or return a copy.",
        )
    return None


@rule(
    "wrong-non-differentiable",
    "contract",
    "warning",
    "mark_non_differentiable does not match the outputs",
    hint="Pass exactly the outputs that carry no gradient (masks, indices stored as floats) to "
    "`ctx.mark_non_differentiable`.",
    lesson="02_ctx_rules",
)
def wrong_non_differentiable(evidence: Evidence) -> Match | None:
    if evidence.values.slopes is None or not evidence.is_function:
        return None
    floats = [i for i, out in enumerate(evidence.forward.outputs) if is_float(out)]
    varies = list(_varies(evidence, [evidence.forward.outputs[i] for i in floats]))
    for place, depends in zip(floats, varies, strict=True):
        values = evidence.forward.outputs[place]
        marked = place in evidence.forward.marked_non_differentiable
        if marked and depends:
            # If other outputs have gradients, report only a note: this one may be a statistic.
            others = set(floats) - set(evidence.forward.marked_non_differentiable)
            return Match(
                f"output {place} changes smoothly with the inputs but is marked as "
                "non-differentiable, so no gradient flows back through "
                f"{'it' if others else 'any output'}.",
                {"output": place},
                "info" if others else "warning",
            )
        if not marked and not depends and any(varies) and _stepped(values):
            return Match(
                f"output {place} is piecewise constant (a mask or an index) but requires grad.",
                {"output": place},
            )
    return None


def _stepped(output: Tensor) -> bool:
    """Return whether all elements of an output are integers and at least one is nonzero."""
    return bool(output.any()) and bool((output == output.round()).all())


def _varies(evidence: Evidence, outputs: Sequence[Tensor]) -> Iterator[bool]:
    """For each output, yield whether it changes smoothly with the inputs."""
    slopes = evidence.values.slopes
    assert slopes is not None
    measured = evidence.values.jacobian or (slopes,)
    seen = [columns.matrix[:, columns.smooth.to(columns.matrix.device)] for columns in measured]
    parts = [matrix.split([as_real(out).numel() for out in outputs]) for matrix in seen]
    yield from (any(bool(rows.any()) for rows in of_one) for of_one in zip(*parts, strict=True))


@rule(
    "default-dtype",
    "contract",
    "warning",
    "forward returns the default dtype instead of the dtype of its inputs",
    hint="Create tensors with the dtype and the device of an input: `torch.zeros_like(x)` or "
    "`x.new_zeros(shape)`.",
    lesson="02_ctx_rules",
)
def default_dtype(evidence: Evidence) -> Match | None:
    found = evidence.forward.default_dtype
    if found is None:
        return None
    floats = {dtype_name(value) for value in evidence.inputs if is_float(value)}
    given, got = " and ".join(sorted(floats)), dtype_name(evidence.forward.outputs[found.output])
    alone = len(evidence.forward.outputs) == 1
    what = f"`forward` returns {got}" if alone else f"output {found.output} of `forward` is {got}"
    # float64 can be the right dtype, but not because it is the default
    why = " only because this is" if got == "float64" else ", which is"
    return Match(
        f"for {given} inputs, {what}{why} PyTorch's default dtype.",
        {"output": found.output, "dtype": got} | ({"line": found.line} if found.line else {}),
    )


# --------------------------------------------------------------------------------------------------
# Rules about values: forward must compute the same values as the reference.
# --------------------------------------------------------------------------------------------------


@rule(
    "forward-mismatch",
    "values",
    "error",
    "forward differs from the reference",
    hint="Repair `forward` first: a gradient can be right only for the function that `forward` "
    "computes.",
    lesson="01_template",
    after=("contract",),
    by_design=("values", "wrong-jvp", "overflow"),
)
def forward_mismatch(evidence: Evidence) -> Match | None:
    wanted = evidence.values.reference_outputs
    if wanted is None or evidence.forward.failure:
        return None
    got = evidence.forward.outputs
    if len(got) != len(wanted):
        return Match(
            f"`forward` returns {plural(len(got), 'tensor')}, but the reference returns "
            f"{len(wanted)}."
        )
    for k, (mine, reference) in enumerate(zip(got, wanted, strict=True)):
        which = "output" if len(got) == 1 else f"output {k}"
        named = "the output" if len(got) == 1 else which
        if mine.shape != reference.shape:
            return Match(
                f"{named} of `forward` has shape {tuple(mine.shape)}, but the reference returns "
                f"shape {tuple(reference.shape)}.",
                {"expected": list(reference.shape), "actual": list(mine.shape)},
            )
        off = _far(mine, reference)
        if bool(off.any()):
            index = tuple(off.nonzero()[0].tolist())
            return Match(
                f"{named} of `forward` differs from the reference at "
                f"{elements(int(off.sum()), off.numel())}{_exactly(off, mine, reference)}.",
                {
                    "input": which,
                    "index": list(index),
                    "expected": plain(reference[index]),
                    "actual": plain(mine[index]),
                },
            )
    return None


def _exactly(off: Tensor, mine: Tensor, reference: Tensor) -> str:
    """Describe the slice that contains all incorrect elements, and their common factor.

    Return ``""`` if the incorrect elements do not fill a slice.
    """
    place = slice_of(off, ~off & (reference != 0), "output")
    if not place:
        return ""
    factor = common_factor((mine / reference)[off])
    if factor is None:
        return f", namely {place}"
    return f", namely {place}, where it is {number(factor)} times the reference"


def _far(mine: Tensor, reference: Tensor) -> Tensor:
    close = torch.isclose(
        mine.to(reference.dtype), reference, rtol=1e-7, atol=1e-9 * size(reference), equal_nan=True
    )
    return ~close


@rule(
    "depends-on-requires-grad",
    "contract",
    "error",
    "the output depends on whether an input requires grad",
    hint="Compute the same output in every mode. Read `requires_grad` or `ctx.needs_input_grad` "
    "only to decide what to save and which gradients to compute.",
    lesson="02_ctx_rules",
    after=("contract", "nondeterministic"),
)
def depends_on_requires_grad(evidence: Evidence) -> Match | None:
    return disagreement(evidence, "without grad")
