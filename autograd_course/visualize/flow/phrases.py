"""Phrases: how one fact of a trace is put into words."""

from collections.abc import Sequence

from autograd_course.visualize.flow.script import Row
from autograd_course.visualize.flow.trace import Edge, Node, Saved, Summaries, Trace
from autograd_course.visualize.kit.formatting import Summary

_LONGEST_TITLE = 17


def headline(trace: Trace) -> str:
    """Say what is traced, how large the graph is, and what counts as the loss."""
    folded = [node.inside for node in trace.nodes if node.inside]
    computed = [node for node in trace.nodes if node.kind in ("op", "custom")]
    operations = len(computed) + sum(inside.operations for inside in folded)
    custom = sum(node.kind == "custom" for node in computed)
    custom += sum(len(inside.custom) for inside in folded)
    count = f"{operations} operation{'s' * (operations != 1)}"
    summed = " The loss is the sum of all elements of the output." if trace.summed else ""
    return f"Gradient flow through {trace.title}: {count}, {custom} custom.{summed}"


def results(node: Node) -> list[Row]:
    """Return value and gradient of each of a node's outputs, as rows of its details."""
    pairs = list(zip(node.values, node.gradients, strict=True))
    rows: list[Row] = []
    for index, (value, gradient) in enumerate(pairs):
        which = f" {index}" if len(pairs) > 1 else ""
        about = f" ({_kind(value)})" if value else ""
        rows.append((f"value{which}", told(value) + about, "value"))
        rows.append((f"gradient ∂{which}", told(gradient), "gradient"))
    return rows


def _kind(value: Summary) -> str:
    """Name dtype and shape, the latter where the value itself does not begin with it."""
    return value.dtype if value.statistics else f"{value.size}, {value.dtype}"


def product(node: Node, edge: Edge) -> str:
    """Write ``grad_output × local = grad_input``; of a Function that is no such product, the call.

    Where an operation of PyTorch is no such product, only the result is told.
    """
    result = told(edge.gradient)
    if edge.factor is not None and len(node.gradients) == 1:
        return f"{told(node.gradients[0])} × {bracketed(told(edge.factor))} = {result}"
    if node.kind != "custom":
        return result
    shapes = (f"[{g.size}]" if g and g.shape else "scalar" if g else "none" for g in node.gradients)
    return f"backward({', '.join(shapes)}) → {result}"


def total(node: Node, uses: Sequence[Edge]) -> str:
    """Write a fan-out as a sum, ``2 + 3 = 5``, or nothing where there are no elements to be seen.

    Of larger tensors only norms are shown, and norms do not add up.
    """
    parts = [edge.gradient for edge in uses if edge.gradient is not None]
    (whole,) = arriving(node)
    if len(parts) < 2 or whole is None or any(part.statistics for part in (*parts, whole)):
        return ""
    first, *others = (part.text for part in parts)
    return f"{' + '.join([first, *map(bracketed, others)])} = {whole.text}"


def bracketed(text: str) -> str:
    """Put a negative number into brackets, as a summand or factor."""
    return f"({text})" if text.startswith("-") else text


def arriving(node: Node) -> Summaries:
    """Return the gradients as a node's consumers sent them, before any hook."""
    if not node.before:
        return node.gradients
    return tuple(was or now for was, now in zip(node.before, node.gradients, strict=True))


def kept(saved: Saved, names: Sequence[str]) -> str:
    """Tell what a saved tensor is: ``names`` are those of the node's arguments."""
    if saved.role == "output":
        return "the output"
    if saved.role == "intermediate":
        return "an intermediate, computed in forward"
    if saved.argument is None:
        return "an input without gradient"
    return f"the input {names[saved.argument]}" if saved.argument < len(names) else "an input"


def sent(edge: Edge) -> str:
    """Write what goes back along an edge, and by which factor: ``4 (×4)``."""
    factor = times(edge)
    return each((edge.gradient,), "brief") + (f" ({factor})" if factor else "")


def times(edge: Edge) -> str:
    """Write an edge's local factor (``×4``), or nothing where there is none to show."""
    if edge.factor is None or not edge.factor.few:
        return ""
    return f"×{bracketed(edge.factor.short)}"


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


def shortened(name: str) -> str:
    """Cut a long name at its beginning: the end of ``block.norm1.weight`` says more."""
    return name if len(name) <= _LONGEST_TITLE else f"…{name[1 - _LONGEST_TITLE :]}"
