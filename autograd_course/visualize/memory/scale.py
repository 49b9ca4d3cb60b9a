"""Axes: events across, forward as wide as backward; bytes upward, in round steps."""

from autograd_course.visualize.kit.formatting import size
from autograd_course.visualize.memory.trace import MemoryTrace

FORWARD, BACKWARD, END = 1.0, 2.0, 2.16  # where each phase ends, for every variant
_TICKS = 5


def places(trace: MemoryTrace) -> list[float]:
    """Return where each event begins, and where the last one ends.

    Variants differ in their number of events; forward and backward stand above each other anyway.
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

    They are multiples of 1, 2, 4 or 5 · 10ᵏ of a unit. Where the next unit comes in between, they
    are quarters of that: 1024 KiB is no multiple of 200.
    """
    unit = 1024 ** max(0, (max(most, 1).bit_length() - 1) // 10)
    rough = max(most, 1) / unit / _TICKS
    decimal = (digit * 10**power for power in range(3) for digit in (1, 2, 4, 5))
    steps = (*(1 / 4, 1 / 2), *(step for step in decimal if step <= 200), 1024 / 4)
    step = max(1, round(next(step for step in steps if step >= rough) * unit))
    count = -(-max(most, 1) // step)
    return [(i * step, size(i * step) if i else "0") for i in range(count + 1)]
