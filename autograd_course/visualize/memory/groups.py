"""Bands of the stacked area: who keeps how much, in few enough groups to be told apart."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from autograd_course.visualize.memory.trace import AGAIN, Kept, MemoryTrace

MOST = 8  # bands that have a color of their own
OTHERS = "others"
_LETTERS = "ABCDEFGH"

Key = Callable[[Kept], str]


@dataclass(frozen=True)
class Grouping:
    """Labels of the bands, the same for all variants, and who belongs to which."""

    labels: tuple[str, ...]
    key: Key

    def letter(self, group: int) -> str:
        """Return the letter that stands on a band, beside its color."""
        return _LETTERS[group]

    def of(self, item: Kept) -> int:
        """Return an item's group."""
        label = self.key(item)
        return self.labels.index(label if label in self.labels else OTHERS)

    def hidden(self, group: int) -> bool:
        """Whether a group holds what hooks do not see: attributes of a ctx."""
        return self.labels[group].endswith(_HIDDEN)

    def again(self, group: int) -> bool:
        """Whether a group holds what a forward keeps that runs again inside backward."""
        return AGAIN in self.labels[group]

    def stacked(self, trace: MemoryTrace) -> list[int]:
        """Return the groups that a trace has, in the order in which they come: the first lowest."""
        return list(dict.fromkeys(self.of(item) for item in self._in_order(trace)))

    @staticmethod
    def _in_order(trace: MemoryTrace) -> list[Kept]:
        return sorted((item for item in trace.kept if item.extra), key=lambda item: item.born)

    def bands(self, trace: MemoryTrace) -> list[list[int]]:
        """Return, for each group, the bytes that it keeps when each event is over.

        The groups' sum is what autograd keeps.
        """
        changes = [[0] * (len(trace.events) + 1) for _ in self.labels]
        for item in trace.kept:
            if item.extra:
                row = changes[self.of(item)]
                row[item.born] += item.extra
                row[len(trace.events) if item.freed is None else item.freed] -= item.extra
        return [list(accumulate(row[:-1])) for row in changes]


_HIDDEN = " (ctx attribute)"


def grouping(traces: Sequence[MemoryTrace]) -> Grouping:
    """Choose the finest grouping that needs no more than eight bands: node, module, operation."""
    items = [item for trace in traces for item in trace.kept if item.extra]
    for key in (_node, *map(_module, (3, 2, 1)), _operation):
        labels = _first_seen(items, key)
        fine = key in (_node, _operation) or len(labels) > 1
        if len(labels) <= MOST and fine:
            return Grouping(tuple(labels) or (OTHERS,), key)
    total: Counter[str] = Counter()
    for item in items:
        total[_operation(item)] += item.extra
    largest = {label for label, _ in total.most_common(MOST - 1)}
    chosen = [label for label in _first_seen(items, _operation) if label in largest]
    return Grouping((*chosen, OTHERS), _operation)


def _first_seen(items: Iterable[Kept], key: Key) -> list[str]:
    return list(dict.fromkeys(key(item) for item in items))


def _marked(item: Kept, label: str) -> str:
    return label + _HIDDEN if item.how == "attribute" else label


def _node(item: Kept) -> str:
    place = f"{item.module} · " if item.module else ""
    return _marked(item, place + item.owner)


def _module(depth: int) -> Key:
    def key(item: Kept) -> str:
        return _marked(item, ".".join(item.module.split(".")[:depth]) or _again(item))

    return key


def _operation(item: Kept) -> str:
    return _marked(item, _again(item))


def _again(item: Kept) -> str:
    return f"{item.op} {AGAIN}" if item.how == "again" else item.op
