"""Phrases: how one fact of a trace is put into words."""

from collections.abc import Sequence

from autograd_course.visualize.flow.script import Row
from autograd_course.visualize.flow.trace import Edge, Node, Trace
from autograd_course.visualize.kit.summary import Summary

_LONGEST_TITLE = 17


def headline(trace: Trace) -> str:
    """Say what is traced, how large the graph is, and what counts as the loss."""
    operations = [node for node in trace.nodes if node.kind in ("op", "custom")]
    custom = sum(node.kind == "custom" for node in operations)
    count = f"{len(operations)} operation{'s' * (len(operations) != 1)}"
    summed = " The loss is the sum of all elements of the output." if trace.summed else ""
    return f"Gradient flow through {trace.title}: {count}, {custom} custom.{summed}"


def results(node: Node) -> list[Row]:
    """Return value and gradient of each of a node's outputs, as rows of its details."""
    pairs = list(zip(node.values, node.gradients, strict=True))
    rows: list[Row] = []
    for index, (value, gradient) in enumerate(pairs):
        which = f" {index}" if len(pairs) > 1 else ""
        about = f" ({value.size}, {value.dtype})" if value else ""
        rows.append((f"value{which}", told(value) + about, "value"))
        rows.append((f"gradient ∂{which}", told(gradient), "gradient"))
    return rows


def product(node: Node, edge: Edge) -> str:
    """Write ``grad_output × local = grad_input``, or only the result where there is no factor."""
    result = told(edge.gradient)
    if edge.factor is None or len(node.gradients) != 1:
        return result
    return f"{told(node.gradients[0])} × {told(edge.factor)} = {result}"


def sent(edge: Edge) -> str:
    """Write what goes back along an edge, and by which factor: ``4 (×4)``."""
    factor = times(edge)
    return each((edge.gradient,), "brief") + (f" ({factor})" if factor else "")


def times(edge: Edge) -> str:
    """Write an edge's local factor (``×4``), or nothing where there is none to show."""
    if edge.factor is None or not edge.factor.few:
        return ""
    text = edge.factor.short
    return f"×({text})" if text.startswith("-") else f"×{text}"


def on_card(summaries: Sequence[Summary | None], what: str, many: str) -> str:
    """Write up to two outputs side by side, and count more."""
    return each(summaries, what) if len(summaries) <= 2 else f"{len(summaries)} {many}"


def each(summaries: Sequence[Summary | None], what: str) -> str:
    """Write one property of every summary."""
    texts = [getattr(summary, what) if summary else "none" for summary in summaries]
    return "; ".join(texts)


def told(summary: Summary | None) -> str:
    """Write all that is known of a tensor."""
    return summary.text if summary else "none"


def listed(items: Sequence[str]) -> str:
    """Join with commas and a final ``and``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def shortened(name: str) -> str:
    """Cut a long name at its beginning: the end of ``block.norm1.weight`` says more."""
    return name if len(name) <= _LONGEST_TITLE else f"…{name[1 - _LONGEST_TITLE :]}"
