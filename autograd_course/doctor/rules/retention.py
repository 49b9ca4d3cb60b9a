"""Rules of retention: what a ctx keeps, how it is read, and what keeps it alive."""

from __future__ import annotations

from autograd_course.doctor.evidence import Evidence, OnCtx
from autograd_course.doctor.rules.agreement import told
from autograd_course.doctor.rules.registry import Seen, rule
from autograd_course.doctor.words import sentence


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
def tensor_on_ctx(evidence: Evidence) -> Seen | None:
    if not evidence.on_ctx:
        return None
    names = {"attributes": [kept.name for kept in evidence.on_ctx]}
    for kept in evidence.on_ctx:
        stale = told(kept.edited) if kept.edited and not kept.edited.failure else None
        if stale:
            return Seen(
                f"{_kept(evidence, kept)}. {sentence(stale.message.removesuffix('.'))}, and "
                "PyTorch raises no error.",
                {**names, **stale.evidence},
                severity="error",
            )
    kept = next((kept for kept in evidence.on_ctx if kept.role), evidence.on_ctx[0])
    return Seen(f"{_kept(evidence, kept)}{_drawback(kept)}", names)


def _kept(evidence: Evidence, kept: OnCtx) -> str:
    whose = {"input": f"the argument `{kept.owner}`", "output": kept.owner}.get(kept.role, "")
    what = whose if kept.owner else f"an {kept.role or 'intermediate result'}"
    inside = "" if evidence.is_function else f" in `{kept.function}`"
    is_cycle = kept.role == "output" and evidence.outlived
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
def ctx_cycle(evidence: Evidence) -> Seen | None:
    if not evidence.outlived or any(kept.role == "output" for kept in evidence.on_ctx):
        return None
    when = "The" if "backward" in evidence.outlived else "If `backward` never runs, the"
    return Seen(
        f"`ctx` is part of a reference cycle. {when} graph and its saved tensors stay in memory "
        "until the garbage collector runs.",
        {"after": list(evidence.outlived)},
    )


@rule(
    "saved-twice",
    "state",
    "warning",
    "backward unpacks its saved tensors more than once",
    hint="Unpack `ctx.saved_tensors` once and reuse the result. Each access unpacks every tensor "
    "again, so a hook that offloads saved tensors copies each of them again.",
    lesson="06_memory_patterns",
    after=("contract",),
)
def saved_twice(evidence: Evidence) -> Seen | None:
    if evidence.unpacked < 2:
        return None
    return Seen(
        f"`backward` reads `ctx.saved_tensors` {evidence.unpacked} times. This raises an error "
        "under `torch.utils.checkpoint` with `use_reentrant=False`.",
        {"times": evidence.unpacked},
    )
