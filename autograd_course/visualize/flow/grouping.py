"""Decide which nodes share a card: chains of reshapes, modules, or long runs of operations."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autograd_course.visualize.flow.trace import Edge, Group, Inside, Node, Trace
from autograd_course.visualize.kit.graph import unique

# --- Folding chains of reshapes into one node -----------------------------------------------------

RESHAPING = frozenset(
    {"Alias", "Clone", "Expand", "Permute", "ReshapeAlias", "Squeeze", "T", "Transpose"}
    | {"UnsafeView", "Unsqueeze", "View"}
)


def fold(trace: Trace) -> Trace:
    """Join each chain of reshapes into one node. In a chain, each node feeds only the next one.

    A chain is either inside a single module call or outside all modules.

    The joined node has the value and the ``grad_output`` of the last node in the chain. It sends
    back the gradient that the first node sends back.
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


# --- The nodes that belong together ---------------------------------------------------------------

Place = dict[int, int | None]  # the group of each node
# If a group contains more than ``_MOST`` objects, they are grouped into runs of at least
# ``_PIECE``.
_MOST, _PIECE = 40, 20


@dataclass
class _Branch:
    """A group in the tree under construction. It stores its contents instead of its position."""

    name: str
    kind: str
    inside: "list[_Branch | int]" = field(default_factory=list)


def regrouped(trace: Trace, given: Sequence[str], opened: bool) -> Trace:
    """Convert the module calls in ``trace.groups`` to a tree of groups for drawing.

    A parameter belongs to the innermost group that contains all of its uses. Inputs whose names are
    in ``given`` stay outside all groups. A group is dropped if it contains a single object or only
    another group. If a group contains more than forty objects, they are grouped into runs of
    twenty. If ``opened`` is true, the outermost call is not a group, because it is the traced
    function.
    """
    computed: Place = {n.id: n.group for n in trace.nodes if n.kind in ("op", "custom")}
    home = computed | _homes(trace, computed, given)
    branches = [_Branch(group.name, group.kind) for group in trace.groups]
    root = _Branch("", "")
    for call, group in enumerate(trace.groups):
        (root if group.parent is None else branches[group.parent]).inside.append(branches[call])
    for node, at in home.items():
        (root if at is None else branches[at]).inside.append(node)
    calls = [branch for branch in root.inside if isinstance(branch, _Branch)]
    if opened and len(calls) == 1:
        root.inside += calls[0].inside
        root.inside.remove(calls[0])
    root = _Branch("", "", _tidied(root, set(computed)))
    _cut(root, set(computed))
    return _numbered(trace, root, given)


def _homes(trace: Trace, place: Place, given: Sequence[str]) -> Place:
    """For each parameter, return the innermost group that contains all its uses."""
    leaves = [n for n in trace.nodes if n.kind == "input" and n.name not in given]
    homes: Place = {}
    for leaf in leaves:
        chains = [trace.around(place.get(edge.target)) for edge in trace.out_of(leaf.id)]
        shared = set(chains[0]).intersection(*chains[1:]) if chains else set()
        homes[leaf.id] = next((group for group in (chains or [[]])[0] if group in shared), None)
    return homes


def _tidied(branch: _Branch, computed: set[int]) -> "list[_Branch | int]":
    """Return the contents of a group. Dissolve inner groups that contain fewer than two objects."""
    kept: list[_Branch | int] = []
    for thing in branch.inside:
        if isinstance(thing, int):
            kept.append(thing)
            continue
        inside = _tidied(thing, computed)
        if len(inside) > 1:
            kept.append(_Branch(thing.name, thing.kind, inside))
        else:
            kept += inside
    return sorted(kept, key=lambda thing: _first(thing, computed))


def _first(thing: "_Branch | int", computed: set[int]) -> int:
    """Return the first node that an object computes. A leaf is its own first node."""
    if isinstance(thing, int):
        return thing
    nodes = [_first(part, computed) for part in thing.inside]
    return min([n for n in nodes if n in computed] or nodes)


def _cut(branch: _Branch, computed: set[int], path: str = "") -> None:
    """If a list is too long to display, split it into runs of consecutive operations."""
    things = [t for t in branch.inside if isinstance(t, _Branch) or t in computed]
    if len(things) > _MOST:
        length = max(_PIECE, -(-len(things) // _MOST))
        runs = [things[i : i + length] for i in range(0, len(things), length)]
        pieces = [
            _Branch(f"run {path}{i + 1}", "run of operations", list(run))
            for i, run in enumerate(runs)
        ]
        leaves = [t for t in branch.inside if isinstance(t, int) and t not in computed]
        branch.inside = [*leaves, *pieces]
    for part in branch.inside:
        if isinstance(part, _Branch):
            deeper = f"{part.name.removeprefix('run ')}." if part.name.startswith("run ") else ""
            _cut(part, computed, deeper)


def _numbered(trace: Trace, root: _Branch, given: Sequence[str]) -> Trace:
    groups: list[Group] = []
    member: Place = {}

    def walk(branch: _Branch, at: int | None) -> None:
        for thing in branch.inside:
            if isinstance(thing, int):
                member[thing] = at
            else:
                groups.append(Group(thing.name, thing.kind, at))
                walk(thing, len(groups) - 1)

    walk(root, None)
    names = unique(group.name for group in groups)
    named = [replace(group, name=name) for group, name in zip(groups, names, strict=True)]
    trace = replace(trace, groups=tuple(named))
    # A run may contain all uses of a parameter, so the parameter's group is looked up again.
    computed = {n.id: member.get(n.id) for n in trace.nodes if n.kind in ("op", "custom")}
    member |= _homes(trace, computed, given)
    nodes = [replace(node, group=member.get(node.id)) for node in trace.nodes]
    return replace(trace, nodes=tuple(nodes))


# --- The groups that are shown as one card --------------------------------------------------------

MOST_CARDS = 60
Owner = tuple[bool, int]  # whether the key is a group, and the number of the group or node


def chosen(trace: Trace, depth: int | None = None) -> frozenset[int]:
    """Return the groups to open: all groups at a depth less than ``depth``.

    If ``depth`` is None, the function opens groups level by level from the outside in, as long as
    there are at most sixty cards. Groups of the same kind and depth are either all opened or all
    closed, so that similar layers look the same.
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
    """Sort groups by kind. Kinds that add few cards when opened come first."""
    kinds: dict[str, list[int]] = {}
    for group in groups:
        kinds.setdefault(trace.groups[group].kind, []).append(group)
    return sorted(kinds.values(), key=lambda alike: sum(parts[group] - 1 for group in alike))


def _owners(trace: Trace, opened: Collection[int]) -> list[Owner]:
    """For each node, return the outermost closed group around it, or the node itself."""
    shows: dict[int | None, int | None] = {None: None}
    for number, group in enumerate(trace.groups):  # outer groups come before inner ones
        around = shows[group.parent]
        shows[number] = around if around is not None else None if number in opened else number
    places = ((node.id, shows[node.group]) for node in trace.nodes)
    return [(False, node) if place is None else (True, place) for node, place in places]


def shown(trace: Trace, opened: Collection[int]) -> Trace:
    """Return a trace in which each closed group is one node.

    The values of this node are the outputs of the group, and its gradients are the gradients of
    these outputs. If closed groups would form a cycle, the function opens them.
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
    """For each object, return its first position in forward order. Parameters come first."""
    first: dict[Owner, int] = {}
    for node, owner in zip(trace.nodes, owners, strict=True):
        if not owner[0] or node.kind != "input":
            first.setdefault(owner, node.id)
    return first


def _sorted(
    owners: Iterable[Owner], links: Iterable[tuple[Owner, Owner]], key: Mapping[Owner, int]
) -> list[Owner]:
    """Sort topologically, and break ties by key."""
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


Ends = dict[tuple[int, int], int]  # maps each output of a group to an output of a node


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
        if target[0]:  # the factor belongs to one operation inside the group
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
