"""What differs between flows: operations that are not the same, and their local factors."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.flow.trace import Trace


class Told(NamedTuple):
    """A flow and its words; their texts may be those of other values of its inputs."""

    trace: Trace
    words: Script


class Different(NamedTuple):
    """The nodes and edges of one flow that differ from another flow's."""

    nodes: frozenset[int] = frozenset()
    edges: frozenset[int] = frozenset()

    @property
    def code(self) -> str:
        """The same as text, such as ``1 4/0``."""
        return "/".join(" ".join(map(str, sorted(part))) for part in self)


def differences(flows: Sequence[Told]) -> list[Different]:
    """Return what differs in each flow from the first, and in the first from any other.

    A node differs if its counterpart is another operation, or if it has none. An edge differs if
    its local factor does, unless the same operation got other values: this only follows from a
    difference farther up.
    """
    first, found = Different(), []
    for other in flows[1:]:
        ours, theirs = _between(flows[0], other)
        first = Different(first.nodes | ours.nodes, first.edges | ours.edges)
        found.append(theirs)
    return [first, *found]


def _between(one: Told, other: Told) -> list[Different]:
    found: list[tuple[set[int], set[int]]] = [(set(), set()), (set(), set())]
    for pair in _counterparts(one.trace, other.trace):
        sides = list(zip((one, other), pair, found, strict=True))
        same = len({_operation(flow.trace, node) for flow, node, _ in sides}) == 1
        if same and len({_received(flow, node) for flow, node, _ in sides}) > 1:
            continue
        for _, node, (nodes, _) in sides:
            if node is not None and not same:
                nodes.add(node)
        for factors in zip_longest(*(_factors(flow, node) for flow, node, _ in sides)):
            if len({factor and factor[1] for factor in factors}) > 1:
                for (_, _, (_, edges)), factor in zip(sides, factors, strict=True):
                    edges.update([factor[0]] if factor and factor[1] else [])
    return [Different(frozenset(nodes), frozenset(edges)) for nodes, edges in found]


def _counterparts(one: Trace, other: Trace) -> Iterator[tuple[int | None, int | None]]:
    """Pair the nodes of two flows in the order of forward; ``None`` stands for a missing one."""
    ours, theirs = ([_operation(flow, n.id) for n in flow.nodes] for flow in (one, other))
    for _, i, k, j, m in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        yield from zip_longest(range(i, k), range(j, m))


def _operation(flow: Trace, node: int | None) -> str:
    if node is None:
        return ""
    told = flow.nodes[node]
    return f"{told.kind} {told.name if told.kind == 'input' else told.op}"


def _received(flow: Told, node: int | None) -> tuple[str, ...]:
    """Return the values that a node got, as its sources' cards show them."""
    into = flow.trace.into(node) if node is not None else ()
    return tuple(flow.words.fill(flow.words.cards[edge.source].value) for edge in into)


def _factors(flow: Told, node: int | None) -> list[tuple[int, str]]:
    """Return the edges into a node, each with its factor, which may be empty."""
    into = [number for number, edge in enumerate(flow.trace.edges) if edge.target == node]
    return [(number, flow.words.fill(flow.words.factors[number])) for number in into]
