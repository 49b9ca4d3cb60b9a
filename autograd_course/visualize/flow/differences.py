"""Find the operations and local factors that differ between flows."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from autograd_course.visualize.flow.describe import Script
from autograd_course.visualize.flow.trace import Trace


class Described(NamedTuple):
    """A flow and its script. The numbers in the script may belong to different input values."""

    trace: Trace
    words: Script


class Different(NamedTuple):
    """The nodes and edges of a flow that differ from those of another flow."""

    nodes: frozenset[int] = frozenset()
    edges: frozenset[int] = frozenset()

    @property
    def code(self) -> str:
        """The differences in compact form, such as ``1 4/0``."""
        return "/".join(" ".join(map(str, sorted(part))) for part in self)


def differences(flows: Sequence[Described]) -> list[Different]:
    """Compare the first flow with each of the others, and return the differences in each flow.

    The result for the first flow combines its differences from all other flows. A node differs if
    it has no counterpart or if its counterpart is a different operation. An edge differs if it has
    no counterpart or if its counterpart has a different local factor. If the same operation merely
    receives different values, its edge is not marked, because the values differ as a result of an
    earlier difference.
    """
    first, found = Different(), []
    for other in flows[1:]:
        ours, theirs = _between(flows[0], other)
        first = Different(first.nodes | ours.nodes, first.edges | ours.edges)
        found.append(theirs)
    return [first, *found]


def _between(one: Described, other: Described) -> list[Different]:
    found: list[tuple[set[int], set[int]]] = [(set(), set()), (set(), set())]
    for pair in _counterparts(one.trace, other.trace):
        ways = [_ways(flow, node) for flow, node in zip((one, other), pair, strict=True)]
        same = _operation(one.trace, pair[0]) == _operation(other.trace, pair[1])
        both = ways[0].keys() & ways[1].keys()
        follows = same and any(ways[0][at].value != ways[1][at].value for at in both)
        alike = {at for at in both if follows or ways[0][at].factor == ways[1][at].factor}
        for node, own, (nodes, edges) in zip(pair, ways, found, strict=True):
            if node is not None and not same:
                nodes.add(node)
            edges.update(way.edge for at, way in own.items() if way.factor and at not in alike)
    return [Different(frozenset(nodes), frozenset(edges)) for nodes, edges in found]


class _Way(NamedTuple):
    """An edge into a node, with its value and its local factor, which may be empty."""

    edge: int
    value: str
    factor: str


def _ways(flow: Described, node: int | None) -> dict[int, _Way]:
    """Return the edges into a node. The keys are the indices of the arguments."""
    words = flow.words
    return {
        edge.argument: _Way(
            k, words.fill(words.cards[edge.source].value), words.fill(words.factors[k])
        )
        for k, edge in enumerate(flow.trace.edges)
        if edge.target == node
    }


def _counterparts(one: Trace, other: Trace) -> Iterator[tuple[int | None, int | None]]:
    """Pair the nodes of two flows in forward order. A missing counterpart is ``None``."""
    ours, theirs = ([_operation(flow, n.id) for n in flow.nodes] for flow in (one, other))
    for _, i, k, j, m in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        yield from zip_longest(range(i, k), range(j, m))


def _operation(flow: Trace, node: int | None) -> str:
    if node is None:
        return ""
    there = flow.nodes[node]
    return f"{there.kind} {there.name if there.kind == 'input' else there.op}"
