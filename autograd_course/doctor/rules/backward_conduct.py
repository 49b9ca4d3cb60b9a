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
    "backward raised an exception",
    hint="Read the line that raised; print the shapes of grad_output and of the saved tensors "
    "there.",
    lesson="08_debugging_clinic",
    after=("contract",),
)
def backward_raises(evidence: Evidence) -> Seen | None:
    failure = backward_failure(evidence)
    turned = any(raw_transpose(evidence, position) for position in evidence.wanted)
    if failure is None or turned:
        return None
    # The family of cotangents stops at the first, if that fails.
    some = " (for some grad_outputs, not for all)" if len(evidence.pulls) > 1 else ""
    return Seen(
        f"backward {what_was_raised(failure)}{some}",
        {**raised(failure), "call": call(evidence)},
        hint=_what_to_do(failure, evidence.backward_source),
    )


def _what_to_do(failure: Failure, source: str) -> str:
    if "tuple index out of range" in failure.text and "needs_input_grad" in source:
        return _NEEDS
    return next((hint for said, hint in WHAT_TO_DO.items() if said in failure.text), "")


_NEEDS = (
    "ctx.needs_input_grad has an entry for every argument that was passed: an optional one that "
    "the call left out has none. Ask first whether it was given."
)
_TUPLE = "ctx.saved_tensors is a tuple, also for a single tensor: (x,) = ctx.saved_tensors."

# What Python and PyTorch say of common mistakes, and what is to be done about each.
WHAT_TO_DO = {
    "unpack (expected 1, got 0)": "ctx.saved_tensors is empty: has forward saved anything?",
    "to unpack (expected": "ctx.saved_tensors holds what forward saved, in that order.",
    "only integer tensors of a single element": _TUPLE,
    "can't multiply sequence": _TUPLE,
    "'tuple' and": _TUPLE,
    "must be Tensor, not tuple": _TUPLE,
    "value of Tensor with more than one value": "Python's if wants one answer, a tensor has one "
    "for each element: torch.where, or a product with the mask.",
    "positional argument": "backward receives ctx, then one gradient for each output of forward.",
    "or None (got list)": "Return the gradients as a tuple: return grad_x, grad_y.",
    "expected Variable or None": "Every gradient is a tensor, or None.",
    "does not require grad and does not have a grad_fn": "Grad mode is off in backward, so nothing "
    "there is recorded to differentiate: write the formula down, or compute under "
    "torch.enable_grad() from x.detach().requires_grad_().",
    "with a bool tensor is not supported": "Count with numbers, not with a mask: "
    "mask.to(grad_output.dtype).",
    "'_fwd_used_autocast'": "custom_bwd needs custom_fwd on forward.",
}


@rule(
    "mutates-grad-output",
    "contract",
    "error",
    "backward changes grad_output in place",
    hint="Work on a new tensor (grad_output * mask, grad_output.clone()): other branches of the "
    "graph may hold the same memory.",
    lesson="02_ctx_rules",
)
def mutates_grad_output(evidence: Evidence) -> Seen | None:
    if not evidence.raw or not evidence.raw.changed_grad_outputs:
        return None
    return Seen(
        "backward changes grad_output in place; a sibling branch that shares it gets a wrong "
        "gradient.",
        {"outputs": list(evidence.raw.changed_grad_outputs)},
    )


@rule(
    "mutates-saved",
    "contract",
    "error",
    "backward changes a saved tensor in place",
    hint="Clone before changing: a saved tensor is the caller's input or output itself, and a "
    "second backward reads it again.",
    lesson="02_ctx_rules",
)
def mutates_saved(evidence: Evidence) -> Seen | None:
    if not evidence.raw or not evidence.raw.changed_saved:
        return None
    return Seen(
        f"backward changes saved tensor {evidence.raw.changed_saved[0]} (counted from 0) in place.",
        {"saved": list(evidence.raw.changed_saved)},
    )


@rule(
    "none-grad-output",
    "contract",
    "error",
    "backward fails when an output goes unused",
    hint="An unused output's gradient arrives as zeros, or as None after "
    "set_materialize_grads(False): handle that case.",
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
                f"backward {what_was_raised(pull.failure)} (when only the {used} output is used)",
                {"used": used, **raised(pull.failure)},
            )
        wrong = mismatches(evidence, name)
        if wrong and not mismatches(evidence):
            return Seen(
                "the gradient is right when every output is used, and wrong when only the "
                f"{used} output is.",
                {"used": used, **witness(wrong[0])},
            )
    return None
