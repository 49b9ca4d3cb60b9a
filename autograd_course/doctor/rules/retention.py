"""Rules of retention: what a ctx keeps, how it is read, and what keeps it alive."""

from __future__ import annotations

from autograd_course.doctor.evidence import Evidence, OnCtx
from autograd_course.doctor.rules.agreement import told
from autograd_course.doctor.rules.registry import Seen, rule


@rule(
    "tensor-on-ctx",
    "state",
    "warning",
    "a tensor is kept as an attribute of ctx",
    hint="Which tensors does the engine have to know of, to check them for changes and to let them "
    "go? Attributes of ctx are for numbers, shapes and flags.",
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
                f"{_kept(evidence, kept)}: {stale.message.removesuffix('.')}, and nothing raises.",
                {**names, **stale.evidence},
                severity="error",
            )
    kept = next((kept for kept in evidence.on_ctx if kept.role), evidence.on_ctx[0])
    return Seen(f"{_kept(evidence, kept)}{_drawback(kept)}", names)


def _kept(evidence: Evidence, kept: OnCtx) -> str:
    whose = {"input": f"the input {kept.owner}", "output": kept.owner}.get(kept.role, "")
    what = whose if kept.owner else f"an {kept.role or 'intermediate result'}"
    inside = "" if evidence.is_function else f" of {kept.function}"
    cycle = ", in a reference cycle" if kept.role == "output" and evidence.outlived else ""
    return f"{kept.name}{inside} keeps {what} as an attribute{cycle}"


def _drawback(kept: OnCtx) -> str:
    unseen = "no saved-tensor hook sees it"
    if kept.role:
        return f": PyTorch does not check it for changes in place, and {unseen}."
    return f": it is not freed after backward, and {unseen}."


@rule(
    "ctx-cycle",
    "state",
    "warning",
    "ctx holds itself",
    hint="What that ctx holds leads back to ctx: a function that uses it, an object that was given "
    "it? Let that hold the numbers it needs, not ctx.",
    lesson="02_ctx_rules",
    after=("contract", "tensor-on-ctx"),
)
def ctx_cycle(evidence: Evidence) -> Seen | None:
    if not evidence.outlived or any(kept.role == "output" for kept in evidence.on_ctx):
        return None
    until = "" if "backward" in evidence.outlived else ", where backward never runs"
    return Seen(
        "a reference cycle holds ctx: the graph and all that it saved stay in memory until the "
        f"garbage collector runs{until}.",
        {"after": list(evidence.outlived)},
    )


@rule(
    "saved-twice",
    "state",
    "warning",
    "backward unpacks its saved tensors more than once",
    hint="Each reading of ctx.saved_tensors unpacks all of them again: a checkpoint refuses that, "
    "and an offloading hook copies everything anew.",
    lesson="06_memory_patterns",
    after=("contract",),
)
def saved_twice(evidence: Evidence) -> Seen | None:
    if evidence.unpacked < 2:
        return None
    return Seen(
        f"backward reads ctx.saved_tensors {evidence.unpacked} times; under a "
        "non-reentrant torch.utils.checkpoint that raises.",
        {"times": evidence.unpacked},
    )
