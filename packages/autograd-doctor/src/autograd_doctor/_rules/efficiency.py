"""Rules about unnecessary work and memory in a correct Function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from autograd_doctor._rules.rule import Match, comparisons, furthest, rule
from autograd_doctor.evidence import PLAIN_AUTOGRAD, Comparison, Evidence
from autograd_doctor.formatting import listed, plural, quoted

FIRST_MAKE_IT_RIGHT = ("contract", "linearity", "values")
IN_FLOAT64 = (
    "in float64"  # the doctor converts all inputs to float64, whatever dtype the caller uses
)


@rule(
    "wasted-gradient",
    "efficiency",
    "info",
    "backward computes a gradient that the call does not need",
    hint="Compute a gradient only if its entry in `ctx.needs_input_grad` is True. There is one "
    "entry for each argument of `forward`.",
    lesson="02_ctx_rules",
    after=(*FIRST_MAKE_IT_RIGHT, "frozen-input"),  # frozen-input: backward mixes up two gradients
)
def wasted_gradient(evidence: Evidence) -> Match | None:
    if not evidence.memory.wasted_gradients:
        return None
    names = [evidence.name(seen.position) for seen in evidence.memory.wasted_gradients]
    operations = [seen.operations for seen in evidence.memory.wasted_gradients]
    first = (
        f"`backward` computes the gradient of `{names[0]}` even when `{names[0]}` does not require "
        f"grad. That costs {_counted(operations[0])}."
    )
    others = f" The same holds for {listed(quoted(names[1:]))}." if names[1:] else ""
    return Match(
        f"{first}{others}", {"operations": dict(zip(names, map(list, operations), strict=True))}
    )


def _counted(operations: Sequence[str]) -> str:
    """Format the names of operations with their counts, as in ``3 operations (2 × mul, sum)``."""
    names = [f"{n} × {name}" if n > 1 else name for name, n in Counter(operations).items()]
    return f"{plural(len(operations), 'operation')} ({', '.join(names)})"


@rule(
    "oversaved",
    "efficiency",
    "info",
    "forward saves a tensor that backward does not need",
    hint="Save only the tensors that the formula of the derivative contains: a saved tensor stays "
    "in memory until `backward` has run. If `backward` needs only a shape or a number, store that "
    "as an attribute of `ctx`.",
    lesson="07_memory_patterns",
    after=FIRST_MAKE_IT_RIGHT,
)
def oversaved(evidence: Evidence) -> Match | None:
    idle = [kept for kept in evidence.memory.kept if not kept.used]
    if not idle:
        return None
    names = [" and ".join(kept.names) for kept in idle]
    size = sum(kept.size for kept in idle)
    its, it = ("their", "them") if len(names) > 1 else ("its", "it")
    unpacked = any(kept.unpacked for kept in idle)
    why_not = (
        f"no gradient depends on {its} values" if unpacked else f"`backward` never unpacks {it}"
    )
    return Match(
        f"`forward` saves {listed(names)} for `backward` ({size} bytes {IN_FLOAT64}), but "
        f"{why_not}.",
        {"saved": [name.replace("`", "") for name in names], "bytes": size},
    )


@rule(
    "unneeded-function",
    "efficiency",
    "info",
    "plain autograd does the same",
    hint="Use plain autograd, unless the Function is there to change the gradient, to save memory "
    "or operations, to be more precise, or to wrap code that autograd cannot follow.",
    lesson="07_memory_patterns",
    after=FIRST_MAKE_IT_RIGHT,
)
def unneeded_function(evidence: Evidence) -> Match | None:
    function, ordinary = (evidence.memory.costs.get(name) for name in ("function", "plain"))
    if function is None or ordinary is None or not _agree(comparisons(evidence, PLAIN_AUTOGRAD)):
        return None
    # Compare the sizes one by one, because the inputs can determine which sum is larger.
    if Counter(ordinary.sizes) - Counter(function.sizes):
        return None
    # if plain autograd runs no operations, there is nothing to compare
    if not 0 < ordinary.operations <= function.operations:
        return None
    sizes = {"plain": sum(ordinary.sizes), "function": sum(function.sizes)}
    operations = {"plain": ordinary.operations, "function": function.operations}
    return Match(
        "plain autograd on the same `forward` gives the same gradients at no greater cost. It "
        f"saves {sizes['plain']} bytes {IN_FLOAT64} and runs "
        f"{plural(ordinary.operations, 'operation')}. The Function saves "
        f"{sizes['function']} bytes and runs {plural(function.operations, 'operation')}.",
        {"bytes": sizes, "operations": operations},
    )


def _agree(both_ways: Iterable[Comparison]) -> bool:
    return all(not comparison.failure and furthest(comparison) is None for comparison in both_ways)
