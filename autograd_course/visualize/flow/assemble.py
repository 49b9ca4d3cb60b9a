"""From what was caught to a trace."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from autograd_course.visualize.flow.fold import fold
from autograd_course.visualize.flow.gradients import BackwardGradients
from autograd_course.visualize.flow.groups import regrouped
from autograd_course.visualize.flow.modules import ModuleCall, innermost
from autograd_course.visualize.flow.opened import attributes, saved_tensors, source_of
from autograd_course.visualize.flow.reading import Reading
from autograd_course.visualize.flow.trace import Edge, Group, Node, Summaries, Trace
from autograd_course.visualize.kit.formatting import Summary
from autograd_course.visualize.kit.graph import (
    GraphNode,
    is_custom,
    operation,
    producers,
    unique,
)


@dataclass(frozen=True)
class Passes:
    """Both passes, still in terms of PyTorch's graph: ``nodes`` in forward order."""

    nodes: Sequence[GraphNode]
    roots: Sequence[tuple[GraphNode, int]]
    leaves: Mapping[GraphNode, Tensor]
    outputs: Sequence[Summary]
    seeds: Sequence[Summary]
    values: Mapping[tuple[GraphNode, int], Summary]
    gradients: BackwardGradients
    collected: Mapping[GraphNode, Summary | None]
    hooks: Mapping[GraphNode, tuple[str, ...]]
    born: Mapping[int, int]
    calls: Sequence[ModuleCall]


@dataclass(frozen=True)
class Names:
    """What is called how: the traced function, and tensors by ``id``.

    ``given`` are the arguments' names. ``whole`` tells that a module is traced, and not a function
    that calls some.
    """

    title: str
    tensors: Mapping[int, str]
    given: Sequence[str]
    whole: bool


def assemble(passes: Passes, names: Names) -> Trace:
    """Build the trace, with chains that only reshape folded, and grouped by module."""
    ids = {node: index for index, node in enumerate(passes.nodes)}
    called = unique([*(_name(node, passes, names.tensors) for node in ids), *_output_names(passes)])
    inner = [_node(node, index, called[index], passes) for node, index in ids.items()]
    rim = [
        Node(len(ids) + i, called[len(ids) + i], "output", "output", (value,), (seed,))
        for i, (value, seed) in enumerate(zip(passes.outputs, passes.seeds, strict=True))
    ]
    edges = [edge for node in ids for edge in _edges(node, ids, passes)]
    edges += [
        Edge(ids[node], end.id, output, 0, end.gradients[0])
        for end, (node, output) in zip(rim, passes.roots, strict=True)
    ]
    summed = len(rim) > 1 or passes.outputs[0].shape != ()
    trace = Trace(
        title=names.title,
        nodes=(*inner, *rim),
        edges=tuple(edges),
        backward=_order(ids, rim, passes),
        summed=summed,
        groups=tuple(Group(call.path, call.kind, call.parent) for call in passes.calls),
        unit=math.hypot(*(seed.norm for seed in passes.seeds)) or 1.0,  # 0 of empty outputs
    )
    return regrouped(fold(trace), names.given, names.whole)


def _name(node: GraphNode, passes: Passes, names: Mapping[int, str]) -> str:
    if node in passes.leaves:
        return names.get(id(passes.leaves[node]), "captured")
    return operation(node)


def _output_names(passes: Passes) -> list[str]:
    alone = len(passes.outputs) == 1 and passes.outputs[0].shape == ()
    return ["loss"] if alone else ["output"] * len(passes.outputs)


def _node(node: GraphNode, index: int, name: str, passes: Passes) -> Node:
    if node in passes.leaves:
        value, gradient = Reading.of(passes.leaves[node]), passes.collected[node]
        return Node(
            id=index,
            name=name,
            op="input",
            kind="input",
            values=(value,),
            gradients=(gradient,),
            hooks=passes.hooks.get(node, ()),
            before=passes.gradients.before.get(node, ()),
        )
    return Node(
        id=index,
        name=name,
        op=operation(node),
        kind="custom" if is_custom(node) else "op",
        values=_values(node, passes),
        gradients=passes.gradients.received.get(node, (None,)),
        saved=saved_tensors(node, passes.born),
        attributes=attributes(node),
        source=source_of(node),
        hooks=passes.hooks.get(node, ()),
        before=passes.gradients.before.get(node, ()),
        group=innermost(passes.calls, node._sequence_nr()),
    )


def _values(node: GraphNode, passes: Passes) -> Summaries:
    count = len(passes.gradients.received.get(node, (None,)))
    return tuple(passes.values.get((node, output)) for output in range(count))


def _edges(node: GraphNode, ids: Mapping[Any, int], passes: Passes) -> list[Edge]:
    sent = passes.gradients.sent.get(node, ())
    factors = passes.gradients.factors.get(node, ())
    absent = (None,) * len(node.next_functions)
    return [
        Edge(ids[source], ids[node], output, i, (*sent, *absent)[i], (*factors, *absent)[i])
        for i, source, output in producers(node)
    ]


def _order(ids: Mapping[GraphNode, int], rim: Sequence[Node], passes: Passes) -> tuple[int, ...]:
    """Return the engine's order; a leaf comes when the last of its consumers has sent."""
    waiting: dict[GraphNode, int] = dict.fromkeys(passes.leaves, 0)
    for node in ids:
        for _, source, _ in producers(node):
            if source in waiting:
                waiting[source] += 1
    order = [end.id for end in rim]
    order += [ids[leaf] for leaf, consumers in waiting.items() if not consumers]
    for node in passes.gradients.sent:
        order.append(ids[node])
        for _, source, _ in producers(node):
            if source in waiting:
                waiting[source] -= 1
                order += [ids[source]] if not waiting[source] else []
    return tuple(order)
