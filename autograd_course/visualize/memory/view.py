"""Prepare a memory trace for the page and the picture: events, bands and ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from autograd_course.visualize.kit.formatting import listed, size
from autograd_course.visualize.memory.describe import sentence, shape, verdict, what
from autograd_course.visualize.memory.trace import AGAIN, Event, Kept, MemoryTrace

ROWS = 12  # the number of rows in the list of saved tensors
_POSITIONS = 64  # the number of positions on the budget slider
COLUMNS = ("peak", "after forward", "forward ops", "backward ops", "recomputed")


def build_view(traces: Mapping[str, MemoryTrace], budget: int | None) -> dict[str, Any]:
    """Return the page's content for all variants."""
    groups = grouping(list(traces.values()))
    most = max((trace.peak for trace in traces.values()), default=0)
    alive = [max(e.alive_high for e in trace.events) for trace in traces.values()]
    given = [e.allocated or 0 for trace in traces.values() for e in trace.events]
    return {
        "title": f"Memory timeline of {', '.join(traces)}: bytes that autograd saves for backward",
        "groups": [
            {
                "label": label,
                "letter": groups.letter(i),
                "hidden": groups.hidden(i),
                "again": groups.again(i),
            }
            for i, label in enumerate(groups.labels)
        ],
        "columns": list(COLUMNS),
        "rows": ROWS,
        "end": END,
        "scales": {
            "kept": ticks(max(most, budget or 0)),
            "alive": ticks(max(most, *alive, *given, budget or 0)),
        },
        "variants": [_variant(name, trace, groups) for name, trace in traces.items()],
    }


def _variant(name: str, trace: MemoryTrace, groups: Grouping) -> dict[str, Any]:
    events, rows = trace.events, _at_each_event(trace)
    return {
        "name": name,
        "cells": cells(trace),
        "peak": trace.peak,
        "peakAt": trace.peak_event,
        "peakText": f"peak {size(trace.peak)}",
        "turn": trace.turn,
        "places": places(trace),
        "phases": [event.phase for event in events],
        "texts": [sentence(trace, i) for i in range(len(events))],
        "kept": [event.kept for event in events],
        "keptTexts": [size(event.kept) for event in events],
        "high": [event.high for event in events],
        "alive": [event.alive_high for event in events],
        "moreText": {
            "alive": f"all tensors: at most {size(max(event.alive_high for event in events))}",
            "allocated": f"CUDA allocator: at most {size(max(e.allocated or 0 for e in events))}",
        },
        "aliveTexts": [size(event.alive_high) for event in events],
        "allocated": None if events[0].allocated is None else [e.allocated for e in events],
        "stacked": groups.stacked(trace),
        "bands": groups.bands(trace),
        "more": [max(0, count - ROWS) for count in map(len, rows)],
        "items": [
            _item(item, groups) for item in _once(item for row in rows for item in row[:ROWS])
        ],
    }


def _at_each_event(trace: MemoryTrace) -> list[list[Kept]]:
    """For each event, return the saved, held and freed tensors. The largest come first."""
    ranked = sorted(trace.kept, key=_rank)
    last = len(trace.events)
    spans = [(item.born, last if item.freed is None else item.freed, item) for item in ranked]
    return [[item for born, freed, item in spans if born <= i <= freed] for i in range(last)]


def _rank(item: Kept) -> tuple[int, bool, int]:
    return -item.extra, bool(item.anyway), item.id


def _once(items: Iterable[Kept]) -> list[Kept]:
    return sorted({item.id: item for item in items}.values(), key=_rank)


def cells(trace: MemoryTrace) -> list[str]:
    """Return a variant's row in the comparison table."""
    again = f"{trace.again_operations}"
    if trace.again_modules:
        again += f" ({trace.again_modules} modules)"
    counts = (str(trace.operations), str(trace.backward_operations), again)
    return [size(trace.peak), size(trace.between), *counts]


def _item(item: Kept, groups: Grouping) -> dict[str, Any]:
    return {
        "group": groups.of(item) if item.extra else None,
        "owner": item.owner,
        "module": item.module,
        "what": what(item),
        "shape": shape(item),
        "dtype": item.dtype,
        "size": size(item.extra) if item.extra else "0 extra",
        "note": note(item),
        "line": item.line,
        "born": item.born,
        "freed": item.freed,
    }


def note(item: Kept) -> str:
    """Return a note if a saved tensor has a special property."""
    notes = []
    if item.anyway:
        notes.append(f"{item.anyway}, already resident")
    if item.also:
        notes.append(f"also saved by {', '.join(item.also[:3])}")
    if item.how == "attribute":
        notes.append("a ctx attribute, which hooks do not see")
    if item.how == "again":
        notes.append("recomputed in backward")
    if item.dtype == "bool":
        notes.append("1 byte per element")
    if item.part < item.bytes:
        notes.append(f"a view of {size(item.part)} keeps its whole storage in memory")
    return "; ".join(notes)


def budgets(traces: Mapping[str, MemoryTrace], budget: int | None) -> dict[str, Any] | None:
    """Return the positions of the budget slider, each with the variants that stay within it."""
    if budget is None:
        return None
    most = max([budget, *(trace.peak for trace in traces.values())])
    step = 1
    while step * _POSITIONS < most * 1.1:
        step *= 2
    last = -(-int(most * 1.1) // step)
    values = sorted({*(i * step for i in range(1, last + 1)), budget})
    return {
        "values": values,
        "labels": [size(value) for value in values],
        "verdicts": [[verdict(t.peak, value) for t in traces.values()] for value in values],
    }


# --------------------------------------------------------------------------------------------------
# The bands of the stacked area: the bytes that each node saves, in a few groups that each have
# their own color.
# --------------------------------------------------------------------------------------------------

OTHERS = "others"
MOST_BANDS = 8  # the maximum number of groups, each with its own color
_LETTERS = "ABCDEFGH"
_HIDDEN = " (ctx attribute)"
Key = Callable[[Kept], str]


@dataclass(frozen=True)
class Grouping:
    """The labels of the bands, which all variants share, and a rule that maps tensors to bands."""

    labels: tuple[str, ...]
    key: Key

    def letter(self, group: int) -> str:
        """Return the letter on a band."""
        return _LETTERS[group]

    def of(self, item: Kept) -> int:
        """Return the group of a tensor."""
        label = self.key(item)
        return self.labels.index(label if label in self.labels else OTHERS)

    def hidden(self, group: int) -> bool:
        """Return whether a group contains ctx attributes, which hooks do not see."""
        return self.labels[group].endswith(_HIDDEN)

    def again(self, group: int) -> bool:
        """Return whether a group contains tensors that a recomputed forward saves."""
        return AGAIN in self.labels[group]

    def stacked(self, trace: MemoryTrace) -> list[int]:
        """Return the groups of a trace. The group that saves first is at the bottom."""
        return list(dict.fromkeys(self.of(item) for item in self._in_order(trace)))

    @staticmethod
    def _in_order(trace: MemoryTrace) -> list[Kept]:
        return sorted((item for item in trace.kept if item.extra), key=lambda item: item.born)

    def bands(self, trace: MemoryTrace) -> list[list[int]]:
        """For each group of tensors, return the number of bytes that it holds after each event.

        The groups add up to the number of bytes that autograd holds.
        """
        changes = [[0] * (len(trace.events) + 1) for _ in self.labels]
        for item in trace.kept:
            if item.extra:
                row = changes[self.of(item)]
                row[item.born] += item.extra
                row[len(trace.events) if item.freed is None else item.freed] -= item.extra
        return [list(accumulate(row[:-1])) for row in changes]


def grouping(traces: Sequence[MemoryTrace]) -> Grouping:
    """Choose the finest grouping with at most eight bands: by node, by module, or by operation."""
    items = [item for trace in traces for item in trace.kept if item.extra]
    for key in (_node, *map(_module, (3, 2, 1)), _operation):
        labels = _first_seen(items, key)
        fine = key in (_node, _operation) or len(labels) > 1
        if len(labels) <= MOST_BANDS and fine:
            return Grouping(tuple(labels) or (OTHERS,), key)
    total: Counter[str] = Counter()
    for item in items:
        total[_operation(item)] += item.extra
    largest = {label for label, _ in total.most_common(MOST_BANDS - 1)}
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


# --------------------------------------------------------------------------------------------------
# The axes: events on the x axis, with equal widths for both phases, and bytes on the y axis.
# --------------------------------------------------------------------------------------------------

FORWARD, BACKWARD, END = 1.0, 2.0, 2.16  # the end of each phase, the same for every variant
_TICKS = 5


def places(trace: MemoryTrace) -> list[float]:
    """Return the positions at which the events begin, and the end of the last event.

    Variants have different numbers of events, but the phases of all variants have the same width.
    """
    turn = trace.turn
    after = next(i for i, event in enumerate(trace.events) if event.phase == "after")
    spans = ((0, turn + 1, 0.0, FORWARD), (turn + 1, after, FORWARD, BACKWARD))
    found: list[float] = []
    for first, last, low, high in (*spans, (after, len(trace.events), BACKWARD, END)):
        count = last - first
        found += [low + (high - low) * i / count for i in range(count)]
    return [*(round(place, 4) for place in found), END]


def ticks(most: int) -> list[tuple[int, str]]:
    """Return about five round sizes from 0 to at least ``most``.

    The sizes are multiples of 1, 2, 4 or 5 · 10ᵏ units. If the range reaches the next larger unit,
    the sizes are quarters of that unit, because 1024 KiB is not a multiple of 200.
    """
    unit = 1024 ** max(0, (max(most, 1).bit_length() - 1) // 10)
    rough = max(most, 1) / unit / _TICKS
    decimal = (digit * 10**power for power in range(3) for digit in (1, 2, 4, 5))
    steps = (*(1 / 4, 1 / 2), *(step for step in decimal if step <= 200), 1024 / 4)
    step = max(1, round(next(step for step in steps if step >= rough) * unit))
    count = -(-max(most, 1) // step)
    return [(i * step, size(i * step) if i else "0") for i in range(count + 1)]


# --------------------------------------------------------------------------------------------------
# Join events that change nothing, and shorten long traces. The totals do not change.
# --------------------------------------------------------------------------------------------------

MOST_EVENTS = 200  # the maximum number of events that are shown individually
_FIXED = ("start", "turn", "end")
_DEPTHS = (6, 5, 4, 3, 2, 1)  # the depths of module paths, in the order in which to try them
_FEWEST = 10  # a trace that is shortened by module has more events than this
Run = Sequence[tuple[int, Event]]


def folded(trace: MemoryTrace, most: int = MOST_EVENTS) -> MemoryTrace:
    """Join backward events that free nothing. In a long trace, also join each module's events.

    Peaks do not change, because the ``high`` of a joined event is the maximum of its parts.
    """
    short = _joined(trace, _idle_runs(trace))
    if len(short.events) <= most:
        return short
    for depth in _DEPTHS:
        by_module = _joined(trace, _by_module(trace, depth))
        if _FEWEST < len(by_module.events) <= most:
            return by_module
    length = -(-len(short.events) // (most - _FEWEST))
    return _joined(short, _together(short, [i // length for i in range(len(short.events))]))


def _idle_runs(trace: MemoryTrace) -> Iterator[Run]:
    for idle, run in groupby(enumerate(trace.events), key=lambda pair: _idle(pair[1])):
        if idle:
            yield list(run)
        else:
            yield from ([pair] for pair in run)


def _idle(event: Event) -> bool:
    return event.kind == "run" and not event.frees


def _by_module(trace: MemoryTrace, depth: int) -> Iterator[Run]:
    """Join neighboring events of the same module. Compare only the first parts of paths."""
    paths = (event.module.split(".")[:depth] for event in trace.events)
    return _together(trace, [".".join(path) or None for path in paths])


def _together(trace: MemoryTrace, places: Sequence[object]) -> Iterator[Run]:
    def group(pair: tuple[int, Event]) -> object:
        number, event = pair
        alone = event.kind in _FIXED
        return (event.phase, number if alone else -1, places[number])

    for _, run in groupby(enumerate(trace.events), key=group):
        yield list(run)


def _joined(trace: MemoryTrace, runs: Iterable[Run]) -> MemoryTrace:
    events: list[Event] = []
    places: dict[int, int] = {}
    for run in runs:
        places |= {number: len(events) for number, _ in run}
        events.append(_one([event for _, event in run]))
    kept = tuple(
        replace(
            item,
            born=places[item.born],
            freed=None if item.freed is None else places[item.freed],
        )
        for item in trace.kept
    )
    return replace(trace, events=tuple(events), kept=kept)


def _one(events: Sequence[Event]) -> Event:
    first, last = events[0], events[-1]
    if len(events) == 1:
        return first
    idle = all(_idle(event) for event in events)
    modules = {event.module for event in events}
    return replace(
        last,
        kind="run" if idle else "many",
        name=_few_names(events) if idle else "",
        module=modules.pop() if len(modules) == 1 and not idle else _common(events),
        inside="",
        by="",
        saves=tuple(i for event in events for i in event.saves),
        again=(),
        frees=tuple(i for event in events for i in event.frees),
        passed=sum(event.passed for event in events),
        high=max(event.high for event in events),
        alive_high=max(event.alive_high for event in events),
        merged=sum(event.merged for event in events),
    )


def _few_names(events: Sequence[Event]) -> str:
    names = [event.name for event in events]
    return listed(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])


def _common(events: Sequence[Event]) -> str:
    paths = [event.module.split(".") for event in events]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
