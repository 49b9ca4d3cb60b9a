"""Rules of transforms: forward mode, vmap, torch.compile, torch.func."""

from __future__ import annotations

from dataclasses import replace

from autograd_course.doctor.comparing.numbers import element, number, plain
from autograd_course.doctor.evidence import Evidence, Failure, Twin
from autograd_course.doctor.rules.agreement import disagreement, furthest, shown, told, twins
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
# What functorch says where the two differ.
NO_AXIS_KEPT = ("flat_bdims must not be None", "SmallVector unable to grow")
TANGENT_CHANGED = (
    "Work on a new tensor (x_tangent * cos, not x_tangent *= cos): whatever else takes the same "
    "input reads this tangent, too."
)
FORMULA = (
    "jvp runs inside of forward mode, which cannot be nested there: write down the derivative as "
    "a formula in the saved tensors and the tangents."
)
NESTED = "Nested forward mode AD"
NO_GRAPH = (
    "The result of the vmap method has no graph: let it end in a call of the Function's own apply, "
    "with the batch in front and grad mode as it is."
)
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
    seen = next(filter(None, map(_jvp_told, twins(evidence, "jvp"))), None)
    return seen or next(filter(None, map(_tangent_told, twins(evidence, "tangent"))), None)


def _tangent_told(twin: Twin) -> Seen | None:
    seen = told(twin)
    return seen and replace(
        seen, message=f"{twin.names[0]} is changed in place by jvp.", hint=TANGENT_CHANGED
    )


def _jvp_told(twin: Twin) -> Seen | None:
    if twin.failure:
        seen = told(twin)
        hints = {
            NOT_KEPT: "saved_tensors" in twin.failure.line,
            FORMULA: NESTED in twin.failure.text,
        }
        return next((replace(seen, hint=hint) for hint in hints if seen and hints[hint]), seen)
    if furthest(twin) is None:
        return None
    came, should = (number(plain(value)) for (value,) in (twin.came, twin.should))
    return Seen(
        f"{twin.how}, jvp and backward disagree on {twin.names[0]}.",
        {"witness": f"⟨grad_output, jvp(v)⟩ = {came}, ⟨backward(grad_output), v⟩ = {should}"},
    )


@rule(
    "silent-reverse-over-forward",
    "transforms",
    "warning",
    "the derivative of jvp's tangent comes out wrong, without an error",
    hint="Reverse mode over forward mode (a gradient of torch.func.jvp, jacrev of jacfwd) follows "
    "jvp's own operations. Build the tangent from saved inputs and outputs: an intermediate that "
    "forward left on ctx is a constant there, and so is what .detach(), .data or .numpy() gives.",
    lesson="09_beyond_eager",
    after=(*FIRST_ORDER, "order", "wrong-jvp"),
)
def silent_reverse_over_forward(evidence: Evidence) -> Seen | None:
    seen = next(filter(None, map(_graph_told, twins(evidence, "tangent graph"))), None)
    return seen and replace(seen, severity="error" if evidence.second_order_asked else None)


def _graph_told(twin: Twin) -> Seen | None:
    place = furthest(twin)
    if place is None:
        return None
    (name,), (came,), (should,) = twin.names, twin.came, twin.should
    known = came is not None and bool(came.any())
    what = "misses a part of that" if known else "does not know: its derivative comes out as 0"
    one, other = (shown(value, place[1]) for value in (came, should))
    where = element(name, place[1])
    return Seen(
        f"the tangent that jvp returns depends on {name}, but its graph {what}, without an error.",
        {"witness": f"⟨g, jvp(v)⟩, differentiated by {where}: {one}, should be {other}"},
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
    for twin in twins(evidence, "vmap"):
        if seen := told(twin):
            return replace(seen, hint=_vmap_hint(twin))
    return None


def _vmap_hint(twin: Twin) -> str:
    """Return a hint for what went wrong here, empty where the rule's own will do."""
    if twin.failure:
        apart = any(text in twin.failure.text for text in NO_AXIS_KEPT)
        return SAVED_APART if apart else ""
    place = furthest(twin)
    arrives_nowhere = place is not None and twin.came[place[0]] is None
    return NO_GRAPH if arrives_nowhere else ""


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
    in_setup = failure.line.partition(":")[0] in ("", "setup_context")  # not in forward's own code
    raises = in_setup and failure.text.startswith(USERS_EXCEPTION)
    if not evidence.omitted or evidence.old_style or not raises:
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
