"""Which nodes belong together: calls of modules, and long runs of operations cut into pieces."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autograd_course.visualize.flow.trace import Group, Trace
from autograd_course.visualize.kit.graph import unique

Place = dict[int, int | None]  # the group of each node
_MOST, _PIECE = 40, 20  # of more than these things side by side, runs of so many are made


@dataclass
class _Branch:
    """A group while the tree is made: it knows what is in it instead of where it is."""

    name: str
    kind: str
    inside: "list[_Branch | int]" = field(default_factory=list)


def regrouped(trace: Trace, given: Sequence[str], opened: bool) -> Trace:
    """Make a useful tree of the calls that ``trace.groups`` lists as they were.

    A parameter goes where all its uses are; inputs of the names ``given`` stay outside. A group of
    one thing is none, nor is one that holds only another; where more than forty things are side by
    side, runs of twenty are made. The outermost call is no group if ``opened`` says so: it is what
    is traced.
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
    """Return for each parameter the innermost group in which all its uses are."""
    leaves = [n for n in trace.nodes if n.kind == "input" and n.name not in given]
    homes: Place = {}
    for leaf in leaves:
        chains = [trace.around(place.get(edge.target)) for edge in trace.out_of(leaf.id)]
        shared = set(chains[0]).intersection(*chains[1:]) if chains else set()
        homes[leaf.id] = next((group for group in (chains or [[]])[0] if group in shared), None)
    return homes


def _tidied(branch: _Branch, computed: set[int]) -> "list[_Branch | int]":
    """Return what is in a branch, without groups that would save no card."""
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
    """Return the first node that a thing computes; a leaf stands for itself."""
    if isinstance(thing, int):
        return thing
    nodes = [_first(part, computed) for part in thing.inside]
    return min([n for n in nodes if n in computed] or nodes)


def _cut(branch: _Branch, computed: set[int], path: str = "") -> None:
    """Cut what is too long to be seen into runs of what was computed one after another."""
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
    # A run may hold all the uses of a parameter: its home is looked up once more.
    computed = {n.id: member.get(n.id) for n in trace.nodes if n.kind in ("op", "custom")}
    member |= _homes(trace, computed, given)
    nodes = [replace(node, group=member.get(node.id)) for node in trace.nodes]
    return replace(trace, nodes=tuple(nodes))
