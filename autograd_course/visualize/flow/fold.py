"""Drawing a chain that only reshapes as one node."""

from collections import Counter
from dataclasses import replace

from autograd_course.visualize.flow.trace import Edge, Node, Trace
from autograd_course.visualize.kit.graph import unique

RESHAPING = frozenset(
    {"Alias", "Clone", "Expand", "Permute", "ReshapeAlias", "Squeeze", "T", "Transpose"}
    | {"UnsafeView", "Unsqueeze", "View"}
)


def fold(trace: Trace) -> Trace:
    """Join each chain of reshaping nodes, one feeding only the next, into its last node.

    A chain lies in one call of a module, or outside all.

    Its value and ``grad_output`` are the last one's; the gradient that it sends is the first one's.
    """
    chains = _chains(trace)
    gone = {node for chain in chains for node in chain[:-1]}
    if not gone:
        return trace
    first = {chain[-1]: chain[0] for chain in chains}
    merged = {chain[-1]: _merged(trace, chain) for chain in chains}
    kept = [merged.get(node.id, node) for node in trace.nodes if node.id not in gone]
    names = unique(_plain_name(node) for node in kept)
    number = {node.id: index for index, node in enumerate(kept)}
    nodes = [replace(node, id=number[node.id], name=names[number[node.id]]) for node in kept]
    edges = [edge for node in kept for edge in trace.into(first.get(node.id, node.id))]
    owner = {first.get(node.id, node.id): node.id for node in kept}
    return replace(
        trace,
        nodes=tuple(nodes),
        edges=tuple(_moved(edge, number, owner) for edge in edges),
        backward=tuple(number[node] for node in trace.backward if node in number),
    )


def _chains(trace: Trace) -> list[list[int]]:
    uses = Counter(edge.source for edge in trace.edges)
    follows = {
        edge.source: edge.target
        for edge in trace.edges
        if uses[edge.source] == 1
        and trace.nodes[edge.source].group == trace.nodes[edge.target].group
        and _reshapes(trace.nodes[edge.source])
        and _reshapes(trace.nodes[edge.target])
    }
    heads = [node for node in follows if node not in set(follows.values())]
    return [_follow(head, follows) for head in heads]


def _follow(head: int, follows: dict[int, int]) -> list[int]:
    chain = [head]
    while chain[-1] in follows:
        chain.append(follows[chain[-1]])
    return chain


def _reshapes(node: Node) -> bool:
    return node.kind == "op" and node.op in RESHAPING


def _merged(trace: Trace, chain: list[int]) -> Node:
    ops = tuple(trace.nodes[node].op for node in chain)
    return replace(trace.nodes[chain[-1]], op="Reshape", folded=ops)


def _plain_name(node: Node) -> str:
    return node.op if node.kind in ("op", "custom") else node.name


def _moved(edge: Edge, number: dict[int, int], owner: dict[int, int]) -> Edge:
    return replace(edge, source=number[edge.source], target=number[owner[edge.target]])
