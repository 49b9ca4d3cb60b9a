"""What the page is told: numbers to draw, and every word and number to read, ready made."""

from collections.abc import Iterable, Mapping
from typing import Any

from autograd_course.visualize.kit.formatting import size
from autograd_course.visualize.memory.describe import sentence
from autograd_course.visualize.memory.groups import Grouping, grouping
from autograd_course.visualize.memory.phrases import shape, verdict, what
from autograd_course.visualize.memory.scale import END, places, ticks
from autograd_course.visualize.memory.trace import Kept, MemoryTrace

ROWS = 12  # of the list of what is kept
_POSITIONS = 64  # of the budget's slider
COLUMNS = ("peak", "after forward", "ops forward", "ops backward", "run again")


def story(traces: Mapping[str, MemoryTrace], budget: int | None) -> dict[str, Any]:
    """Put all variants together. Only ``budget`` depends on the budget."""
    groups = grouping(list(traces.values()))
    most = max((trace.peak for trace in traces.values()), default=0)
    alive = [max(e.alive_high for e in trace.events) for trace in traces.values()]
    given = [e.allocated or 0 for trace in traces.values() for e in trace.events]
    return {
        "title": _title(traces),
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


def _title(traces: Mapping[str, MemoryTrace]) -> str:
    names = ", ".join(traces)
    return f"Memory timeline of {names}: bytes that autograd keeps from forward for backward"


def _variant(name: str, trace: MemoryTrace, groups: Grouping) -> dict[str, Any]:
    events, listed = trace.events, _at_each_event(trace)
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
        "more": [max(0, count - ROWS) for count in map(len, listed)],
        "items": [
            _item(item, groups) for item in _once(item for row in listed for item in row[:ROWS])
        ],
    }


def _at_each_event(trace: MemoryTrace) -> list[list[Kept]]:
    """Return what is kept at each event, or freed by it: the largest first, then what is free."""
    ranked = sorted(trace.kept, key=_rank)
    last = len(trace.events)
    spans = [(item.born, last if item.freed is None else item.freed, item) for item in ranked]
    return [[item for born, freed, item in spans if born <= i <= freed] for i in range(last)]


def _rank(item: Kept) -> tuple[int, bool, int]:
    return -item.extra, bool(item.anyway), item.id


def _once(items: Iterable[Kept]) -> list[Kept]:
    return sorted({item.id: item for item in items}.values(), key=_rank)


def cells(trace: MemoryTrace) -> list[str]:
    """Return a row of the table that compares the variants."""
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
    """Say what is special about a kept tensor."""
    notes = []
    if item.anyway:
        notes.append(f"{item.anyway}, alive anyway")
    if item.also:
        notes.append(f"also saved by {', '.join(item.also[:3])}")
    if item.how == "attribute":
        notes.append("a ctx attribute: no hook sees it")
    if item.how == "again":
        notes.append("from a forward that ran again")
    if item.dtype == "bool":
        notes.append("a byte an element")
    if item.part < item.bytes:
        notes.append(f"a view of {size(item.part)} keeps all of its storage")
    return "; ".join(notes)


def budgets(traces: Mapping[str, MemoryTrace], budget: int | None) -> dict[str, Any] | None:
    """Return the budgets that the slider can take, and each variant's verdict at each of them."""
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
