"""Walk through PyTorch's graph, and order and name its nodes."""

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from torch.autograd.function import BackwardCFunction

# The type of ``grad_fn``: a C++ node, or the ctx of a custom Function.
GraphNode = Any

_FIRST = -1


def producers(node: GraphNode) -> list[tuple[int, GraphNode, int]]:
    """Return ``(argument, node, output)`` for each differentiable argument of a node."""
    edges = enumerate(node.next_functions)
    return [(argument, source, output) for argument, (source, output) in edges if source]


def in_forward_order(roots: Iterable[GraphNode], leaves: Sequence[GraphNode]) -> list[GraphNode]:
    """Return ``roots`` and all nodes that they depend on, in forward order and without duplicates.

    Leaves come first, in the order of ``leaves``. The other nodes are in the order of forward.
    """
    found = _reachable(roots)
    waiting = {node: len({id(source) for _, source, _ in producers(node)}) for node in found}
    consumers: dict[GraphNode, list[GraphNode]] = {node: [] for node in found}
    for node in found:
        for source in {id(source): source for _, source, _ in producers(node)}.values():
            consumers[source].append(node)
    place = {leaf: index for index, leaf in enumerate(leaves)}
    made = {node: _made(node, place) for node in found}
    ready = [(made[node], i, node) for i, node in enumerate(found) if not waiting[node]]
    heapq.heapify(ready)
    order: list[GraphNode] = []
    while ready:
        node = heapq.heappop(ready)[-1]
        order.append(node)
        for consumer in consumers[node]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                heapq.heappush(ready, (made[consumer], len(found) + len(order), consumer))
    return order


def _reachable(roots: Iterable[GraphNode]) -> list[GraphNode]:
    found: dict[GraphNode, None] = {}
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += [source for _, source, _ in producers(node)][::-1]
    return list(found)


def _made(node: GraphNode, place: dict[GraphNode, int]) -> tuple[int, int]:
    if is_leaf(node):
        return _FIRST, place.get(node, len(place))
    return node._sequence_nr(), 0


def is_leaf(node: GraphNode) -> bool:
    """Return whether the node accumulates the gradient of a leaf tensor."""
    return hasattr(node, "variable")


def is_custom(node: GraphNode) -> bool:
    """Return whether the node belongs to a ``torch.autograd.Function`` written in Python."""
    return isinstance(node, BackwardCFunction)


def operation(node: GraphNode) -> str:
    """Return an operation's name: ``Mul`` for ``MulBackward0``, or the Function's class name."""
    if is_custom(node):
        return str(node._forward_cls.__name__)
    return re.sub(r"(Backward\d*|^torch::autograd::)", "", node.name())


def unique(names: Iterable[str]) -> list[str]:
    """Number repeated names: ``Add``, ``Mul``, ``Add 2``."""
    seen: Counter[str] = Counter()
    return [_numbered(name, seen) for name in names]


def _numbered(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name} {seen[name]}"
