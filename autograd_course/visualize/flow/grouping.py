"""Showing a group of nodes as one card, and choosing which groups to show so."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from autograd_course.visualize.flow.trace import Edge, Inside, Node, Trace

MOST_CARDS = 60
Owner = tuple[bool, int]  # whether it is a group, and the number of the group or node


def chosen(trace: Trace, depth: int | None = None) -> frozenset[int]:
    """Return the groups to open: all that lie less than ``depth`` deep.

    Without a depth, level by level from outside, as many as leave at most sixty cards. Groups of
    one kind that lie equally deep are opened together or not at all: layers that are alike look so.
    """
    if depth is not None:
        deep = range(len(trace.groups))
        return frozenset(group for group in deep if len(trace.around(group)) <= depth)
    parts = Counter(node.group for node in trace.nodes)
    parts.update(group.parent for group in trace.groups)
    opened: set[int | None] = {None}
    cards, around = parts[None], set[int | None]([None])
    while level := [n for n, group in enumerate(trace.groups) if group.parent in around]:
        for alike in _kinds(trace, level, parts):
            more = sum(parts[group] - 1 for group in alike)
            if cards + more <= MOST_CARDS:
                opened, cards = opened | set(alike), cards + more
        around = opened.intersection(level)
    return frozenset(group for group in opened if group is not None)


def _kinds(trace: Trace, groups: Sequence[int], parts: Mapping[int | None, int]) -> list[list[int]]:
    """Sort groups by their kind; those of which opening all takes fewest cards come first."""
    kinds: dict[str, list[int]] = {}
    for group in groups:
        kinds.setdefault(trace.groups[group].kind, []).append(group)
    return sorted(kinds.values(), key=lambda alike: sum(parts[group] - 1 for group in alike))


def _owners(trace: Trace, opened: Collection[int]) -> list[Owner]:
    """Return what shows each node: the outermost closed group around it, or itself."""
    shows: dict[int | None, int | None] = {None: None}
    for number, group in enumerate(trace.groups):  # outer groups come before inner ones
        around = shows[group.parent]
        shows[number] = around if around is not None else None if number in opened else number
    places = ((node.id, shows[node.group]) for node in trace.nodes)
    return [(False, node) if place is None else (True, place) for node, place in places]


def shown(trace: Trace, opened: Collection[int]) -> Trace:
    """Return the trace with each group that is not opened as one node.

    Its values are those that leave it, its gradients those that come back to it. A group that
    could only be drawn with edges running both ways is opened.
    """
    if not trace.groups:
        return trace
    owners = _owners(trace, opened)
    links = {(owners[e.source], owners[e.target]) for e in trace.edges}
    links = {(a, b) for a, b in links if a != b}
    order = _sorted(owners, links, _earliest(trace, owners))
    if circling := [number for group, number in set(owners) - set(order) if group]:
        return shown(trace, {*opened, *circling})
    number = {owner: i for i, owner in enumerate(order)}
    members: dict[Owner, list[Node]] = {}
    for node, owner in zip(trace.nodes, owners, strict=True):
        members.setdefault(owner, []).append(node)
    turn = {node: i for i, node in enumerate(trace.backward)}
    last = {owner: max(turn.get(n.id, -1) for n in nodes) for owner, nodes in members.items()}
    back = _sorted(owners, {(b, a) for a, b in links}, last)
    edges, ends = _edges(trace, owners, number)
    return replace(
        trace,
        nodes=tuple(_node(trace, o, i, members[o], ends.get(o, {})) for i, o in enumerate(order)),
        edges=tuple(edges),
        backward=tuple(number[owner] for owner in back if last[owner] >= 0),
    )


def _earliest(trace: Trace, owners: Sequence[Owner]) -> dict[Owner, int]:
    """Return when each begins in forward; the parameters in a group stand before everything."""
    first: dict[Owner, int] = {}
    for node, owner in zip(trace.nodes, owners, strict=True):
        if not owner[0] or node.kind != "input":
            first.setdefault(owner, node.id)
    return first


def _sorted(
    owners: Iterable[Owner], links: Iterable[tuple[Owner, Owner]], key: Mapping[Owner, int]
) -> list[Owner]:
    """Sort so that links go forward, and by key where they leave a choice."""
    links = list(links)
    waiting = Counter(target for _, target in links)
    after: dict[Owner, list[Owner]] = {}
    for source, target in links:
        after.setdefault(source, []).append(target)
    ready = [(key[owner], owner) for owner in set(owners) if not waiting[owner]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, owner = heapq.heappop(ready)
        order.append(owner)
        for target in after.get(owner, ()):
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, (key[target], target))
    return order


Ends = dict[tuple[int, int], int]  # which output of a group is which output of which node


def _edges(
    trace: Trace, owners: Sequence[Owner], number: Mapping[Owner, int]
) -> tuple[list[Edge], dict[Owner, Ends]]:
    ends: dict[Owner, Ends] = {}
    arguments: Counter[Owner] = Counter()
    edges = []
    for edge in trace.edges:
        source, target = owners[edge.source], owners[edge.target]
        if source == target:
            continue
        moved = replace(edge, source=number[source], target=number[target])
        if source[0]:
            of = ends.setdefault(source, {})
            moved = replace(moved, output=of.setdefault((edge.source, edge.output), len(of)))
        if target[0]:  # the factor is that of one operation inside
            moved = replace(moved, argument=arguments[target], factor=None)
            arguments[target] += 1
        edges.append(moved)
    return edges, ends


def _node(trace: Trace, owner: Owner, number: int, members: Sequence[Node], ends: Ends) -> Node:
    if not owner[0]:
        return replace(members[0], id=number)
    group = trace.groups[owner[1]]
    leaving = [(trace.nodes[node], output) for node, output in ends]
    computed = [node for node in members if node.kind != "input"]
    inside = Inside(
        group=owner[1],
        operations=len(computed),
        custom=tuple(node.name for node in computed if node.kind == "custom"),
        parameters=tuple((n.name, n.gradients[0]) for n in members if n.kind == "input"),
    )
    return Node(
        id=number,
        name=group.name,
        op=group.kind,
        kind="module",
        values=tuple(node.values[output] for node, output in leaving) or (None,),
        gradients=tuple(node.gradients[output] for node, output in leaving) or (None,),
        hooks=tuple(name for node in members for name in node.hooks),
        group=group.parent,
        inside=inside,
    )
