"""The nodes of the graph that forward left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor


def custom_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of custom Functions within a depth below the outputs."""
    return (node for node in graph_nodes(outputs, depth) if hasattr(node, "_forward_cls"))


def graph_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of the graph within a depth below the outputs."""
    seen: set[Any] = set()
    level: list[Any] = [out.grad_fn for out in outputs]
    while level and depth:
        fresh_nodes = {node for node in level if node is not None} - seen
        seen |= fresh_nodes
        yield from fresh_nodes
        level = [parent for node in fresh_nodes for parent, _ in node.next_functions]
        depth -= 1
