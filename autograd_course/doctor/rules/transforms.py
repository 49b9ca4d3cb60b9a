"""Rules of transforms: forward mode, vmap, torch.compile, torch.func."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.comparing.numbers import number, plain
from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.rules.agreement import disagreement, furthest, told, twins
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.rules.wording import raised

FIRST_ORDER = ("contract", "linearity", "values", "state")
NOT_KEPT = (
    "In jvp ctx.saved_tensors holds what ctx.save_for_forward was given, not what "
    "ctx.save_for_backward was: give both the tensors that they need."
)
SAVED_APART = (
    "A generated rule keeps one list of batch axes for both: give ctx.save_for_forward the same "
    "tensors as ctx.save_for_backward, in the same order."
)
NO_AXIS_KEPT = "flat_bdims must not be None"  # what functorch says where the two differ
USERS_EXCEPTION = "Observed exception"  # so dynamo begins to tell of one in the code it traces


@rule(
    "wrong-jvp",
    "transforms",
    "error",
    "jvp and backward are not one another's transpose",
    hint="jvp returns one tangent for each output: the sum over the inputs of the derivative times "
    "that input's tangent. Compare it with backward term by term.",
    lesson="09_beyond_eager",
    after=FIRST_ORDER,
)
def wrong_jvp(evidence: Evidence) -> Seen | None:
    return next(filter(None, map(_jvp_told, twins(evidence, "jvp"))), None)


def _jvp_told(twin: Twin) -> Seen | None:
    if twin.failure:
        seen = told(twin)
        unsaved = "saved_tensors" in twin.failure.line
        return replace(seen, hint=NOT_KEPT) if seen and unsaved else seen
    if furthest(twin) is None:
        return None
    came, should = (number(plain(value)) for (value,) in (twin.came, twin.should))
    return Seen(
        f"{twin.how}, jvp and backward disagree on {twin.names[0]}.",
        {"witness": f"⟨grad_output, jvp(v)⟩ = {came}, ⟨backward(grad_output), v⟩ = {should}"},
    )


@rule(
    "wrong-vmap",
    "transforms",
    "error",
    "torch.func.vmap gives other results than a loop",
    hint="A vmap method gets tensors with the batch dimension still in them, at in_dims, None for "
    "a tensor that all share: move each to the front, and say in out_dims where it went. With "
    "generate_vmap_rule everything must be done by PyTorch operations on tensors.",
    lesson="09_beyond_eager",
    after=(*FIRST_ORDER, "layout"),
)
def wrong_vmap(evidence: Evidence) -> Seen | None:
    seen = disagreement(evidence, "vmap")
    failures = (twin.failure.text for twin in twins(evidence, "vmap") if twin.failure)
    apart = any(NO_AXIS_KEPT in text for text in failures)
    return replace(seen, hint=SAVED_APART) if seen and apart else seen


@rule(
    "compile-mismatch",
    "transforms",
    "warning",
    "torch.compile does not do what eager mode does",
    hint="torch.compile traces forward and backward with tensors that have no values: no branch "
    "on values, no printing, no state outside ctx, no torch.autograd.grad. What cannot do without "
    "goes behind torch.compiler.disable.",
    lesson="09_beyond_eager",
    after=FIRST_ORDER,
)
def compile_mismatch(evidence: Evidence) -> Seen | None:
    twin = next(twins(evidence, "compile"), None)
    if twin is None or twin.failure is None:
        return disagreement(evidence, "compile")
    return Seen(
        f"torch.compile cannot trace it into one graph: {twin.failure.text}",
        raised(twin.failure),
        hint=_left_to_defaults(evidence, twin.failure),
    )


def _left_to_defaults(evidence: Evidence, failure: Failure) -> str:
    """Return a hint where setup_context, when traced, gets fewer inputs than in eager mode."""
    if not evidence.omitted or evidence.old_style or not failure.text.startswith(USERS_EXCEPTION):
        return ""
    names = ", ".join(evidence.omitted)
    return f"Pass {names} as well: traced, setup_context gets no defaults of forward."


@rule(
    "func-incompatible",
    "transforms",
    "info",
    "no torch.func transform works on it",
    hint="Move all that uses ctx into setup_context(ctx, inputs, output) and leave "
    "forward(*inputs) without ctx: what backward needs of forward's intermediates becomes an "
    "output.",
    lesson="09_beyond_eager",
    after=("contract",),
)
def func_incompatible(evidence: Evidence) -> Seen | None:
    if not evidence.old_style:
        return None
    names = " and ".join(evidence.old_style)
    return Seen(
        f"ctx is an argument of forward in {names}: torch.func.grad, vmap, jvp and the others "
        "refuse it."
    )
