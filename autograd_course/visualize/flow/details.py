"""The rows of a node's details: everything that the trace knows of it."""

from autograd_course.visualize.flow import marks
from autograd_course.visualize.flow.phrases import (
    arriving,
    kept,
    product,
    results,
    told,
)
from autograd_course.visualize.flow.script import Row
from autograd_course.visualize.flow.trace import Inside, Node, Trace
from autograd_course.visualize.kit.formatting import listed, size

_MOST_PARAMETERS = 8
_MOST_USES = 12  # of a value, that are told one by one


def rows(trace: Trace, node: Node) -> list[Row]:
    """Tell a node's numbers in rows: a term, a text, and what must be known before it is told."""
    if node.kind == "output":
        return results(node)
    size: Row = ("size of ∂", marks.size(node.gradients[0], trace.unit), "gradient")
    sums, sends = _sums(trace, node), _sends(trace, node)
    inside = _parameters(node.inside) if node.inside else []
    return [*results(node), size, *sums, *_changed(node), *sends, *_kept(trace, node), *inside]


def facts(trace: Trace, node: Node) -> list[Row]:
    """Tell what no number changes: hooks, and what is folded or lies around the node."""
    around = " in ".join(
        f"{trace.groups[group].name} ({trace.groups[group].kind})"
        for group in trace.around(node.group)
    )
    told_facts = {
        "hooks on it": ", ".join(node.hooks),
        "holds": _holds(node.inside) if node.inside else "",
        "custom Functions": ", ".join(node.inside.custom) if node.inside else "",
        "folded": " → ".join(node.folded),
        "part of": around,
    }
    return [(term, text, "value") for term, text in told_facts.items() if text]


def _sums(trace: Trace, node: Node) -> list[Row]:
    """Tell for each output that is used twice or more which gradients add up."""
    found: list[Row] = []
    for output in range(len(node.gradients)):
        uses = [edge for edge in trace.out_of(node.id) if edge.output == output]
        if len(uses) < 2:
            continue
        which = f" {output}" if len(node.gradients) > 1 else ""
        if len(uses) > _MOST_USES:
            found.append((f"∂{which} adds up", f"from {len(uses)} uses", "gradient"))
            continue
        parts = (f"{told(use.gradient)} (from {trace.nodes[use.target].name})" for use in uses)
        text = f"{' + '.join(parts)} = {told(arriving(node)[output])}"
        found.append((f"∂{which} adds up", text, "gradient"))
    return found


def _changed(node: Node) -> list[Row]:
    return [
        ("∂ before → after hook", f"{told(was)} → {told(now)}", "gradient")
        for was, now in zip(node.before, node.gradients, strict=False)
        if was is not None
    ]


def _sends(trace: Trace, node: Node) -> list[Row]:
    return [
        (f"sends to {trace.nodes[edge.source].name}", product(node, edge), "gradient")
        for edge in trace.into(node.id)
    ]


def _kept(trace: Trace, node: Node) -> list[Row]:
    names: dict[int, str] = {e.argument: trace.nodes[e.source].name for e in trace.into(node.id)}
    arguments = [names.get(i, "") for i in range(max(names, default=-1) + 1)]
    found: list[Row] = []
    for index, saved in enumerate(node.saved):
        about = f"{saved.summary.dtype}, {size(saved.bytes, exact_below=10 * 1024)}"
        text = f"{saved.summary.text} ({about}): {kept(saved, arguments)}"
        found.append((f"saved tensor {index}", text, "value"))
    return found + [(f"ctx.{name}", text, "value") for name, text in node.attributes]


def _holds(inside: Inside) -> str:
    operations, parameters = inside.operations, len(inside.parameters)
    things = [f"{operations} operation{'s' * (operations != 1)}"]
    things += [f"{parameters} parameter{'s' * (parameters != 1)}"] if parameters else []
    return listed(things)


def _parameters(inside: Inside) -> list[Row]:
    shown = inside.parameters[:_MOST_PARAMETERS]
    found: list[Row] = [(f"∂ of {name}", told(gradient), "gradient") for name, gradient in shown]
    if more := len(inside.parameters) - len(shown):
        found.append(("∂ of others", f"{more} more: open it to see them", "gradient"))
    return found
