"""A gradient's way through a graph, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autograd_course.visualize.kit.summary import Summary

Kind = Literal["input", "op", "custom", "output"]
Summaries = tuple[Summary | None, ...]


@dataclass(frozen=True)
class Saved:
    """A tensor that a custom Function keeps from forward for backward."""

    summary: Summary
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {**self.summary.to_dict(), "bytes": self.bytes}


@dataclass(frozen=True)
class Node:
    """One node of the graph, or one tensor at its rim.

    ``name`` is unique in its trace. ``op`` is the operation: PyTorch's own name without
    ``Backward0``, or the class of a custom Function. ``values`` are its outputs in forward and
    ``gradients`` what arrived for each of them in backward (``grad_output``): one of each for most
    nodes. A value is ``None`` if no later operation read it, a gradient if none arrived.
    ``saved`` and ``attributes`` open the ctx of a custom Function. ``folded`` lists the operations
    of a chain that only reshapes, first to last, and is drawn as one node.
    """

    id: int
    name: str
    op: str
    kind: Kind
    values: Summaries
    gradients: Summaries
    saved: tuple[Saved, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    folded: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {
            "id": self.id,
            "name": self.name,
            "op": self.op,
            "kind": self.kind,
            "values": [value and value.to_dict() for value in self.values],
            "gradients": [gradient and gradient.to_dict() for gradient in self.gradients],
            "saved": [saved.to_dict() for saved in self.saved],
            "attributes": dict(self.attributes),
            "folded": list(self.folded),
        }


@dataclass(frozen=True)
class Edge:
    """A value's way from the node ``source`` into the node ``target``, and its gradient's way back.

    ``output`` says which output of ``source`` it is, ``argument`` which differentiable argument of
    ``target``. ``gradient`` is what ``target`` sends back. ``factor`` is the local derivative,
    ``gradient / grad_output``; it is given only where that quotient *is* the derivative: the
    operation works element by element (or on single numbers) and no ``grad_output`` is zero.
    """

    source: int
    target: int
    output: int
    argument: int
    gradient: Summary | None
    factor: Summary | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {
            "source": self.source,
            "target": self.target,
            "output": self.output,
            "argument": self.argument,
            "gradient": self.gradient and self.gradient.to_dict(),
            "factor": self.factor and self.factor.to_dict(),
        }


@dataclass(frozen=True)
class Trace:
    """One forward and one backward pass, as they really went.

    ``nodes`` are in the order of forward, and ``nodes[i].id == i``; ``backward`` lists ids in the
    order in which the engine reached them. ``summed`` tells that the output was no scalar, so that
    the loss is the sum of all its elements.
    """

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    backward: tuple[int, ...]
    summed: bool = False

    def into(self, node: int) -> Sequence[Edge]:
        """Return the edges that bring a node its arguments, in their order."""
        return [edge for edge in self.edges if edge.target == node]

    def out_of(self, node: int) -> Sequence[Edge]:
        """Return the edges that carry a node's outputs away."""
        return [edge for edge in self.edges if edge.source == node]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return {
            "title": self.title,
            "summed": self.summed,
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [edge.to_dict() for edge in self.edges],
            "backward": list(self.backward),
        }
