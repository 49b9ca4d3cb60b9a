"""Describe a memory trace in words: a sentence for each event, tensor names, and a summary."""

from collections.abc import Callable, Sequence

from autograd_course.visualize.kit.formatting import listed, size
from autograd_course.visualize.memory.hooks import CHECKPOINT
from autograd_course.visualize.memory.trace import Event, Kept, MemoryTrace

_MOST_NAMED = 3  # the maximum number of tensors that one sentence names
_MOST_LINES = 60  # the maximum number of lines in a description


def sentence(trace: MemoryTrace, number: int) -> str:
    """Describe an event in a sentence."""
    event = trace.events[number]
    return _SENTENCES[event.kind](event, _Items(trace, event))


class _Items:
    """The trace's entries for the tensors in one event."""

    def __init__(self, trace: MemoryTrace, event: Event) -> None:
        self.saves = [trace.kept[i] for i in event.saves]
        self.again = [trace.kept[i] for i in event.again]
        self.frees = [trace.kept[i] for i in event.frees]

    @property
    def freed(self) -> str:
        return size(sum(item.extra for item in self.frees))


def _save(event: Event, items: _Items) -> str:
    verb = (
        f"is recomputed inside the backward of {event.inside} and saves"
        if event.inside
        else "saves"
    )
    through = f" through {event.by}" if event.by else ""
    costs = [item for item in items.saves if item.extra]
    parts = [f"{name}, {size(total)}" for name, total in _summed(costs, its)]
    shared = [item for item in items.again if item.extra]
    parts += [f"{name} (already saved)" for name, _ in _summed(shared, _belonging)]
    if free := [item for item in (*items.saves, *items.again) if not item.extra]:
        names = [name for name, _ in _summed(free, lambda item: item.anyway or its(item))]
        parts.append(f"{listed(names)} (already resident)")
    extra = "" if costs else ": 0 extra bytes"
    return f"{who(event)} {verb} {'; '.join(parts)}{through}{extra}."


def _summed(items: Sequence[Kept], told: Callable[[Kept], str]) -> list[tuple[str, int]]:
    """Name tensors, and add up the bytes per name. If there are many names, count the tensors."""
    if len({told(item) for item in items}) > _MOST_NAMED:
        return [(f"{len(items)} tensors", sum(item.extra for item in items))]
    found: dict[str, list[int]] = {}
    for item in items:
        found.setdefault(told(item), []).append(item.extra)
    return [
        (name if len(sizes) == 1 else f"{name} ({len(sizes)} tensors)", sum(sizes))
        for name, sizes in found.items()
    ]


def _belonging(item: Kept) -> str:
    """Name a tensor after the node that saved it first."""
    return f"{item.role} of {item.owner}" if item.how == "attribute" else _of(item)


def _of(item: Kept) -> str:
    return f"the {what(item)} of {item.owner}"


def _pass(event: Event, _: _Items) -> str:
    later = " Backward recomputes it." if event.by == CHECKPOINT else ""
    return (
        f"{who(event)} would save {size(event.passed)}, but {event.by} did not keep it in memory."
        f"{later}"
    )


def _hide(event: Event, items: _Items) -> str:
    found = [*items.saves, *items.again]
    names = listed([f"{item.role}, {size(item.extra)}" for item in found])
    return f"{who(event)} sets {names} on its ctx. Saved-tensor hooks do not see ctx attributes."


def _run(event: Event, items: _Items) -> str:
    if not items.frees:
        verbs = ("run", "free") if event.merged > 1 else ("runs", "frees")
        return f"{event.name} {verbs[0]} and {verbs[1]} nothing."
    costs = [item for item in items.frees if item.extra]
    if not costs:
        names = _summed(items.frees, lambda item: item.anyway or its(item))
        released = listed([name for name, _ in names])
        return f"{who(event)} runs and releases {released} (already resident)."
    freed = listed([name for name, _ in _summed(costs, lambda item: _whose(item, event))])
    return f"{who(event)} runs and frees {freed}: {items.freed}."


def _whose(item: Kept, event: Event) -> str:
    return its(item) if item.owner == event.name else _belonging(item)


def _free(event: Event, items: _Items) -> str:
    where = f"The backward of {event.inside}" if event.inside else "Forward"
    costs = [item for item in items.frees if item.extra]
    freed = listed([name for name, _ in _summed(costs, _belonging)] or ["nothing"])
    return f"{where} frees {freed}: {items.freed}."


def _end(event: Event, items: _Items) -> str:
    left = size(event.kept)
    if event.by == "backward":
        if not event.kept:
            return "Backward is over. Nothing is saved anymore."
        return f"Backward is over, but {left} are still saved: a ctx lives as long as its graph."
    if event.by == "results":
        if not event.kept:
            return f"Python deletes the results and their graph, which frees {items.freed}."
        return (
            f"Python deletes the results, but {left} are still in memory: "
            "a reference cycle keeps them alive."
        )
    return f"The garbage collector runs and frees {items.freed}."


def _many(event: Event, items: _Items) -> str:
    where = f"{event.module}: " if event.module else ""
    if event.phase == "backward":
        return f"{where}{event.merged} steps of backward free {items.freed}."
    saved = size(sum(item.extra for item in items.saves))
    return f"{where}{event.merged} steps of forward save {saved}."


_SENTENCES: dict[str, Callable[[Event, _Items], str]] = {
    "start": lambda *_: "Nothing has run yet. Inputs and parameters are already resident.",
    "save": _save,
    "pass": _pass,
    "attribute": _hide,
    "turn": lambda event, _: f"Forward is over. {size(event.kept)} are saved for backward.",
    "run": _run,
    "free": _free,
    "end": _end,
    "many": _many,
}


def describe(name: str, trace: MemoryTrace, budget: int | None = None) -> str:
    """Describe a trace in plain text: first the totals, then each event."""
    judged = "" if budget is None else f"; budget {size(budget)}: {verdict(trace.peak, budget)}"
    head = (
        f"{name}: peak {size(trace.peak)}, {size(trace.between)} saved after forward; "
        f"{trace.operations} operations in forward, {trace.backward_operations} in backward, "
        f"{trace.again_operations} of them recomputed{judged}"
    )
    lines = [
        f"  {event.phase:8} {sentence(trace, number)} Saved: {size(event.kept)}."
        for number, event in enumerate(trace.events)
    ]
    rest = len(lines) - _MOST_LINES
    return "\n".join(
        [head, *lines[:_MOST_LINES], *([f"  … {rest} more events"] if rest > 0 else [])]
    )


def who(event: Event) -> str:
    """Name an event's node and the module that called it."""
    return f"{event.name} ({event.module})" if event.module else event.name


def its(item: Kept) -> str:
    """Name a tensor by its role in the node that saved it, such as ``its output``."""
    return item.role if item.how == "attribute" else f"its {what(item)}"


def what(item: Kept) -> str:
    """Return the role of a tensor in one word."""
    if item.how == "attribute":
        return item.role
    return "mask" if item.dtype == "bool" and item.role == "intermediate" else item.role


def shape(item: Kept) -> str:
    """Format a shape as ``2×3``."""
    return "×".join(map(str, item.shape)) or "scalar"


def verdict(peak: int, budget: int) -> str:
    """Say whether the peak is within the budget."""
    return "✓ fits" if peak <= budget else f"✗ {size(peak - budget)} over"
