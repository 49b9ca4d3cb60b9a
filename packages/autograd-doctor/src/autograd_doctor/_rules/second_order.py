"""Rules about second derivatives."""

from __future__ import annotations

import math

from autograd_doctor._rules.rule import Match, raised, rule, what_was_raised
from autograd_doctor.evidence import (
    Evidence,
    Failure,
    LostGraph,
    SecondDerivative,
    SecondOrder,
)
from autograd_doctor.finding import Severity
from autograd_doctor.formatting import number, quoted

# These show that the first derivatives are wrong, or that they change from call to call.
FIRST_ORDER = (
    "contract",
    "linearity",
    "values",
    "nondeterministic",
    "rng-not-restored",
    "shared-state",
    "not-reentrant",
)
ONCE_DIFFERENTIABLE = "marked with @once_differentiable"
ZERO_BY_INF = (
    "Look for 0 · inf in the graph of `backward`. A square root and a division have an infinite "
    "derivative at 0. `torch.where` and `clamp` multiply it by 0 on the side that they do not "
    "select, and the product is nan. Replace the input of the operation with another number "
    "wherever the derivative would be infinite."
)


@rule(
    "silent-double-backward",
    "order",
    "info",
    "a second derivative is wrong, without an error",
    hint="Save only inputs and outputs, because only these carry a graph. Return an intermediate "
    "result of `forward` as an extra output, or recompute it in `backward`. Do not use "
    "`.detach()`, `.data` or `.numpy()` in `backward`.",
    lesson="06_double_backward",
    after=FIRST_ORDER,
)
def silent_double_backward(evidence: Evidence) -> Match | None:
    second = evidence.second_order
    if second is None or _marked(second.failure):
        return None
    wrong = _first_wrong(evidence, second)
    if wrong is None:
        return None
    if not _is_number(wrong):
        return _seen(evidence, _lost(wrong, None), wrong, hint=ZERO_BY_INF)
    return _seen(evidence, _lost(wrong, second.lost), wrong, second.lost)


@rule(
    "once-differentiable-leak",
    "order",
    "info",
    "@once_differentiable silently drops a second derivative",
    hint="Build `backward` from differentiable operations, and remove the decorator. If that is "
    "not possible, raise an error in `backward` when `torch.is_grad_enabled()` returns True. In "
    "`backward`, grad mode is enabled when a second derivative is needed, and always under "
    "`torch.func`.",
    lesson="06_double_backward",
    after=FIRST_ORDER,
)
def once_differentiable_leak(evidence: Evidence) -> Match | None:
    second = evidence.second_order
    if second is None or not _marked(second.failure):
        return None
    wrong = _first_wrong(evidence, second)
    if wrong is None:
        return None
    message = (
        "`@once_differentiable` raises an error only in `.backward()`, and only if `grad_output` "
        "requires grad. In all other cases PyTorch silently drops the second derivative through "
        f"the gradient of `{wrong.of}`."
    )
    return _seen(evidence, message, wrong)


@rule(
    "no-double-backward",
    "order",
    "info",
    "backward raises an error when it is differentiated",
    hint="If you need second derivatives (a gradient penalty, a Hessian), build `backward` from "
    "differentiable operations on saved inputs and outputs. Otherwise, say in the docstring that "
    "`backward` cannot be differentiated.",
    lesson="06_double_backward",
    after=(*FIRST_ORDER, "silent-double-backward", "once-differentiable-leak"),
)
def no_double_backward(evidence: Evidence) -> Match | None:
    second = evidence.second_order
    if second is None or second.failure is None or _first_wrong(evidence, second) is not None:
        return None
    in_place = "modified by an inplace operation" in second.failure.text
    return Match(
        f"differentiating `backward` {what_was_raised(second.failure)}",
        raised(second.failure),
        severity=_severity(evidence),
        hint=_IN_PLACE if in_place else "",
    )


_IN_PLACE = (
    "Compute into a new tensor when `torch.is_grad_enabled()` returns True: an in-place operation "
    "in `backward` (`sub_`, `+=`, an assignment to `p[…]`) overwrites values that the second "
    "derivative needs."
)


def _marked(failure: Failure | None) -> bool:
    return failure is not None and ONCE_DIFFERENTIABLE in failure.text


def _first_wrong(evidence: Evidence, second: SecondOrder) -> SecondDerivative | None:
    """Return the first incorrect second derivative.

    Ignore nan and infinity unless second derivatives are required, because users notice them
    anyway.
    """
    wrong = (found for found in second.derivatives if found.wrong)
    told = (f for f in wrong if evidence.second_order_required or math.isfinite(f.actual or 0.0))
    return next(told, None)


def _is_number(wrong: SecondDerivative) -> bool:
    return math.isfinite(wrong.actual or 0.0)


def _lost(wrong: SecondDerivative, cause: LostGraph | None) -> str:
    if not _is_number(wrong):
        return (
            f"the gradient of `{wrong.of}` is finite and should have a finite derivative with "
            f"respect to `{wrong.by}`, but differentiating its graph gives "
            f"{number(wrong.actual or 0.0)}."
        )
    if not wrong.actual:
        said = (
            f"the gradient of `{wrong.of}` depends on `{wrong.by}`, but its graph does not contain "
            "this dependence. PyTorch returns 0 as the second derivative and raises no error."
        )
        return f"{said} {_because(cause)}" if cause else said
    said = f"the gradient of `{wrong.of}` has a wrong derivative with respect to `{wrong.by}`."
    if cause:
        return f"{said} {_because(cause)}"
    return (
        f"{said} Either the graph covers only part of how this gradient depends on `{wrong.by}`, "
        "or `backward` calls another Function whose `backward` is wrong."
    )


def _because(cause: LostGraph) -> str:
    """Explain in one or two sentences where the graph is lost."""
    names = " and ".join(quoted(cause.names))
    several = len(cause.names) > 1
    has, it, is_ = ("have", "they", "are") if several else ("has", "it", "is")
    kind = "inputs nor outputs" if several else "an input nor an output"
    if cause.helper:
        return f"`backward` calls `{cause.helper}`. There, {names} gives values without a graph."
    if cause.place == "backward":
        return f"In `backward`, {names} gives values without a graph."
    if cause.place == "attribute" and cause.copied:
        return f"{names} is a copy of `{cause.copied}` without a graph."
    if cause.place == "attribute":
        return (
            f"`forward` computes {names} from the inputs. An attribute of `ctx` that is a number, "
            "or a tensor that `forward` computes, has no graph."
        )
    if not names:
        return (
            "`forward` saves an intermediate result. Only saved inputs and outputs have a graph in "
            "`backward`."
        )
    return (
        f"`forward` saves {names}, which {is_} neither {kind}. For this reason, "
        f"{it} {has} no graph in `backward`."
    )


def _recipe(cause: LostGraph) -> str:
    """Explain how to keep the graph."""
    if cause.helper:
        return (
            f"`forward` calls `{cause.helper}`, too. Do not call it again in `backward`: save the "
            "output of `forward`, which has a graph, or pass the input to `apply` there."
        )
    if cause.place == "backward":
        return (
            "Compute with tensors only, and without "
            f"`{cause.names[0]}`, so that autograd can follow `backward`."
        )
    if cause.copied:
        saving = " with `ctx.save_for_backward`" if cause.place == "attribute" else ""
        return (
            f"Save `{cause.copied}` itself{saving}. If you need another shape, change it in "
            "`backward`."
        )
    names = " and ".join(quoted(cause.names)) or "the intermediate result"
    return (
        f"Compute {names} in `backward`, using tensor operations on the saved inputs. Or return "
        "it as an extra output of `forward` and save that."
    )


def _seen(
    evidence: Evidence,
    message: str,
    wrong: SecondDerivative,
    cause: LostGraph | None = None,
    hint: str = "",
) -> Match:
    actual, expected = number(wrong.actual or 0.0), number(wrong.expected)
    witness = (
        f"derivative of the gradient of {wrong.of} with respect to {wrong.by}, along a random "
        f"direction: {actual}, should be {expected}"
    )
    seen: dict[str, object] = {"input": wrong.of, "witness": witness}
    if cause:
        seen |= {"lost": list(cause.names), "line": cause.line}
        hint = hint or _recipe(cause)
    return Match(message, seen, severity=_severity(evidence), hint=hint)


def _severity(evidence: Evidence) -> Severity | None:
    """Return ``"error"`` if second derivatives are required, else ``None`` (the rule's default)."""
    return "error" if evidence.second_order_required else None
