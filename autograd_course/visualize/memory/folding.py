"""Fewer events for the same account: what changes nothing, and what is too long to step through."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from autograd_course.visualize.memory.trace import Event, MemoryTrace

MOST = 200  # events that are still told one by one
_FIXED = ("start", "turn", "end")
_DEPTHS = (6, 5, 4, 3, 2, 1)  # of module paths
_FEWEST = 10  # events: with fewer, a trace has nothing left to tell

Run = Sequence[tuple[int, Event]]


def folded(trace: MemoryTrace, most: int = MOST) -> MemoryTrace:
    """Join backward nodes that free nothing; in a long trace, join events by their module.

    Peaks stay what they are: a joined event has the highest ``high`` of its parts.
    """
    short = _joined(trace, _idle_runs(trace))
    if len(short.events) <= most:
        return short
    for depth in _DEPTHS:
        by_module = _joined(trace, _by(trace, depth))
        if _FEWEST < len(by_module.events) <= most:
            return by_module
    length = -(-len(short.events) // (most - _FEWEST))
    return _joined(short, _by_number(short, length))


def _prefix(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth])


def _idle_runs(trace: MemoryTrace) -> Iterator[Run]:
    for idle, run in groupby(enumerate(trace.events), key=lambda pair: _idle(pair[1])):
        if idle:
            yield list(run)
        else:
            yield from ([pair] for pair in run)


def _idle(event: Event) -> bool:
    return event.kind == "run" and not event.frees


def _by(trace: MemoryTrace, depth: int) -> Iterator[Run]:
    """Put neighbors together that ran in one module, up to a depth of paths."""
    places = (_prefix(event.module, depth) for event in trace.events)
    return _together(trace, [place or None for place in places])


def _by_number(trace: MemoryTrace, length: int) -> Iterator[Run]:
    """Put so many neighbors together, whatever they are."""
    return _together(trace, [i // length for i in range(len(trace.events))])


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
        name=_names(events) if idle else "",
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


def _names(events: Sequence[Event]) -> str:
    names = [event.name for event in events]
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _common(events: Sequence[Event]) -> str:
    paths = [event.module.split(".") for event in events]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
