"""The nodes of a graph while backward goes through it, and what their ctx holds besides."""

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from autograd_doctor.memory import iter_storages
from torch import Tensor

from autograd_course.visualize.kit.graph import GraphNode, is_custom, is_leaf, operation
from autograd_course.visualize.memory.ledger import Entry, Ledger, Moment, Owner


def nodes_behind(outputs: Iterable[Tensor]) -> list[GraphNode]:
    """Return every node of the graph once, in the order in which forward made them."""
    found: set[GraphNode] = set()
    stack = [output.grad_fn for output in outputs if output.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [source for source, _ in node.next_functions if source is not None]
    return sorted(found, key=lambda node: node._sequence_nr())


class Graph:
    """The owners of all nodes, and the hooks on them."""

    def __init__(
        self,
        ledger: Ledger,
        nodes: Sequence[GraphNode],
        owners: Iterable[Owner],
        paths: Mapping[int, str],
    ) -> None:
        self.ledger = ledger
        self.nodes = [node for node in nodes if not is_leaf(node)]
        self.leaves = [node.variable for node in nodes if is_leaf(node)]
        plain = {owner.seq: owner for owner in owners if not owner.custom}
        custom = sorted((o for o in owners if o.custom), key=lambda owner: owner.seq)
        self.owners = [_owner(node, plain, custom, paths) for node in self.nodes]
        self._hidden: dict[int, dict[int, Entry]] = {}  # by node, by storage
        self._refs: list[weakref.ref[Any]] = []
        self._last = -1

    def look_into_ctx(self) -> None:
        """Enter the tensors that custom Functions have put on their ctx, as attributes.

        When that happened no hook has seen: they are entered where their node stands in forward.
        """
        for index, node in enumerate(self.nodes):
            found = list(iter_storages(vars(node))) if is_custom(node) else []
            if found:
                self._hidden[index] = self._enter(self.owners[index], vars(node), found)
                self._refs.append(weakref.ref(node, partial(self._dropped, index)))

    def _enter(
        self, owner: Owner, attributes: dict[str, Any], found: list[Any]
    ) -> dict[int, Entry]:
        ledger = self.ledger
        moment, kept = _moment_of(ledger, owner), ledger.kept
        last, high = ledger.now, ledger.now.high
        names = {key: name for name, it in attributes.items() for key, _, _ in iter_storages(it)}
        entries = {}
        for key, storage, it in found:
            entries[key] = entry = ledger.hold(
                key, storage.nbytes(), owner, moment, how="attribute", line="", part=it.nbytes,
                shape=tuple(it.shape), role=f"ctx.{names[key]}",
                dtype=str(it.dtype).removeprefix("torch."),
            )  # fmt: skip
            if entry in moment.again:
                _begins_earlier(ledger, entry, moment, owner, f"ctx.{names[key]}")
        last.high = high  # what was grown belongs to the past
        _raise_from(ledger.moments[ledger.moments.index(moment) :], ledger.kept - kept)
        moment.alive = max(moment.alive, moment.kept)
        moment.alive_high = max(moment.alive_high, moment.kept)
        return entries

    def _dropped(self, index: int, _: Any) -> None:
        for entry in self._hidden.pop(index, {}).values():
            self.ledger.release(entry)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Tell the ledger, inside a ``with`` block, which node runs."""
        handles = [
            node.register_prehook(partial(self._runs, index))
            for index, node in enumerate(self.nodes)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _runs(self, index: int, _: Any) -> None:
        self.check_ctx()
        self._last, self.ledger.running = index, self.owners[index]
        self.ledger.begin("run", self.owners[index])

    def check_ctx(self) -> None:
        """See whether the node that ran last has taken something off its ctx."""
        hidden = self._hidden.get(self._last)
        if hidden:
            left = {key for key, _, _ in iter_storages(vars(self.nodes[self._last]))}
            for key in [key for key in hidden if key not in left]:
                self.ledger.release(hidden.pop(key))

    def let_go(self) -> None:
        """Hold the graph no longer."""
        self.nodes, self.leaves = [], []


def _owner(
    node: GraphNode, plain: dict[int, Owner], custom: list[Owner], paths: Mapping[int, str]
) -> Owner:
    """Return the owner under which a node has saved; a new one if it has saved nothing."""
    number, name = node._sequence_nr(), operation(node)
    new = Owner(name, number, paths.get(number, ""), custom=is_custom(node))
    if not is_custom(node):
        owner = plain.get(number) or new
        owner.op = name
        return owner
    # What a custom forward computes under grad mode takes numbers too, before the node saves.
    found = next((it for it in custom if it.op == name and it.seq >= number), None)
    if found is None:
        return new
    custom.remove(found)
    return found


def _moment_of(ledger: Ledger, owner: Owner) -> Moment:
    """Return a new moment for what a node has put on its ctx, in its place among the others."""
    places = [i for i, it in enumerate(ledger.moments) if it.seq <= owner.seq]
    place = places[-1]
    before = ledger.moments[place]
    moment = Moment("forward", "attribute", owner, seq=owner.seq)
    moment.kept = moment.high = before.kept
    moment.alive = moment.alive_high = before.alive
    moment.allocated = before.allocated
    ledger.moments.insert(place + 1, moment)
    return moment


def _begins_earlier(ledger: Ledger, entry: Entry, moment: Moment, owner: Owner, role: str) -> None:
    """Correct the account of a storage that lay on a ctx before another node saved it."""
    place, known = ledger.moments.index(moment), ledger.moments.index(entry.born)
    if known <= place:
        return
    entry.born.saves.remove(entry)
    entry.born.again.append(entry)
    moment.again.remove(entry)
    moment.saves.append(entry)
    entry.also = [entry.owner, *(other for other in entry.also if other is not owner)]
    entry.born, entry.owner, entry.how, entry.role = moment, owner, "attribute", role
    if not entry.anyway:
        _raise_from(ledger.moments[place:known], entry.bytes)


def _raise_from(moments: Iterable[Moment], size: int) -> None:
    for moment in moments:
        moment.kept += size
        moment.high += size
