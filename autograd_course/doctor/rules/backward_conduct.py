"""Rules of the contract: what backward does besides returning gradients."""

from __future__ import annotations

from autograd_course.doctor.comparing.mismatch import mismatches, witness
from autograd_course.doctor.evidence import Evidence, Failure
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import (
    backward_failure,
    call,
    ordinal,
    raised,
    raw_transpose,
    what_was_raised,
)


@rule(
    "backward-raises",
    "contract",
    "error",
    "backward raises an exception",
    hint="Read the line that raises the exception, and print the shapes of `grad_output` and of "
    "the saved tensors there.",
    lesson="08_debugging_clinic",
    after=("contract",),
)
def backward_raises(evidence: Evidence) -> Seen | None:
    failure, own = backward_failure(evidence), evidence.own
    turned = any(raw_transpose(evidence, position) for position in evidence.wanted)
    if failure is None and own and own.stage == "backward":
        where = f"in {own.dtype}, the dtype of your inputs, "
        return Seen(
            f"{where}`backward` {what_was_raised(own.failure)}",
            {**raised(own.failure), "call": call(evidence)},
            hint=_what_to_do(own.failure, evidence.backward_source),
        )
    if failure is None or turned:
        return None
    # The family of cotangents stops at the first, if that fails.
    some = "for some values of `grad_output`, " if len(evidence.pulls) > 1 else ""
    return Seen(
        f"{some}`backward` {what_was_raised(failure)}",
        {**raised(failure), "call": call(evidence)},
        hint=_what_to_do(failure, evidence.backward_source),
    )


def _what_to_do(failure: Failure, source: str) -> str:
    if "tuple index out of range" in failure.text and "needs_input_grad" in source:
        return _NEEDS
    return next((hint for said, hint in WHAT_TO_DO.items() if said in failure.text), "")


_NEEDS = (
    "Check that the call passed the optional argument before you read its entry: "
    "`ctx.needs_input_grad` has entries only for arguments that were passed."
)
_TUPLE = "Unpack `ctx.saved_tensors`, a tuple even for a single tensor: `(x,) = ctx.saved_tensors`."

# What Python and PyTorch say about common mistakes, and how to repair each.
WHAT_TO_DO = {
    "unpack (expected 1, got 0)": "Call `ctx.save_for_backward` in `forward`: `ctx.saved_tensors` "
    "is empty.",
    "to unpack (expected": "Unpack exactly the tensors that `forward` saved, in the same order.",
    "only integer tensors of a single element": _TUPLE,
    "can't multiply sequence": _TUPLE,
    "'tuple' and": _TUPLE,
    "must be Tensor, not tuple": _TUPLE,
    "value of Tensor with more than one value": "Use `torch.where` or multiply by the mask: "
    "a Python if needs a single truth value, and this tensor has many elements.",
    "positional argument": "Give `backward` the parameter `ctx` and one more for each "
    "output of `forward`.",
    "or None (got list)": "Return the gradients as a tuple: `return grad_x, grad_y`.",
    "expected Variable or None": "Return a tensor or None for each argument.",
    "does not require grad and does not have a grad_fn": "Write the derivative as a formula, or "
    "compute it under `torch.enable_grad()` from `x.detach().requires_grad_()`. Grad mode is off "
    "in `backward`, so PyTorch records no graph there.",
    "with a bool tensor is not supported": "Convert the mask to numbers first: "
    "`mask.to(grad_output.dtype)`.",
    "'_fwd_used_autocast'": "Decorate `forward` with `custom_fwd`: `custom_bwd` needs it.",
}


@rule(
    "mutates-grad-output",
    "contract",
    "error",
    "backward changes grad_output in place",
    hint="Compute a new tensor (`grad_output * mask`) or change a copy (`grad_output.clone()`): "
    "other branches of the graph may use the same memory.",
    lesson="02_ctx_rules",
)
def mutates_grad_output(evidence: Evidence) -> Seen | None:
    if not evidence.raw or not evidence.raw.changed_grad_outputs:
        return None
    return Seen(
        "`backward` changes `grad_output` in place, so another branch of the graph that shares it "
        "gets a wrong gradient.",
        {"outputs": list(evidence.raw.changed_grad_outputs)},
    )


@rule(
    "mutates-saved",
    "contract",
    "error",
    "backward changes a saved tensor in place",
    hint="Clone a saved tensor before you change it: it can be the caller's own input or output, "
    "and a second backward pass reads it again.",
    lesson="02_ctx_rules",
)
def mutates_saved(evidence: Evidence) -> Seen | None:
    if not evidence.raw or not evidence.raw.changed_saved:
        return None
    return Seen(
        f"`backward` changes saved tensor {evidence.raw.changed_saved[0]} (counting from 0) in "
        "place.",
        {"saved": list(evidence.raw.changed_saved)},
    )


@rule(
    "none-grad-output",
    "contract",
    "error",
    "backward fails when an output is unused",
    hint="Handle unused outputs: `backward` gets zeros as their `grad_output`, or None if "
    "`forward` calls `ctx.set_materialize_grads(False)`.",
    lesson="02_ctx_rules",
    after=("contract",),
)
def none_grad_output(evidence: Evidence) -> Seen | None:
    for name, pull in evidence.pulls.items():
        if not name.startswith("only"):
            continue
        used = ordinal(name)
        if pull.failure and pull.failure.runs_in_own_dtype:
            continue
        if pull.failure:
            return Seen(
                f"when only the {used} output is used, `backward` {what_was_raised(pull.failure)}",
                {"used": used, **raised(pull.failure)},
            )
        wrong = mismatches(evidence, name)
        if wrong and not mismatches(evidence):
            return Seen(
                "the gradient is right when every output is used, but wrong when only the "
                f"{used} output is used.",
                {"used": used, **witness(wrong[0])},
            )
    return None
