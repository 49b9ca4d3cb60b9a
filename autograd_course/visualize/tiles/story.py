"""A trace as one story in frames, JSON-compatible: what the page shows and the picture draws.

What a step does not change is not in its frame; :func:`at` adds the frames up.
"""

from typing import Any

from autograd_course.visualize.tiles import describe
from autograd_course.visualize.tiles.heat import heat
from autograd_course.visualize.tiles.trace import TileTrace
from autograd_course.visualize.tiles.view import (
    Frame,
    backward,
    begin,
    forward,
    frame,
    weighed,
)

Story = dict[str, Any]


def story(trace: TileTrace) -> Story:
    """Tell a trace: the stage, and the frames from the beginning to the end."""
    return {
        "title": describe.headline(trace),
        "rows": [[rows.start, rows.stop] for rows in trace.rows],
        "columns": [[columns.start, columns.stop] for columns in trace.columns],
        "skipped": [list(place) for place in trace.skipped],
        "hidden": ["".join("10"[pair] for pair in row) for row in trace.visible],
        "given": {name: heat(trace.tensors[name]) for name in ("q", "k", "v", "grad_out")},
        "longest": describe.figure(trace.longest_sum, 2),
        "begin": begin(trace),
        "captions": describe.CAPTIONS,
        "memory": describe.memory(trace),
        "whole": {phase: weighed(trace, visit) for phase, visit in trace.whole.items()},
        "frames": [
            frame("start", "given", describe.given(trace)),
            *forward(trace),
            *backward(trace),
            frame("end", "end", describe.end(trace)),
        ],
    }


def at(told: Story, step: int) -> Frame:
    """Return the frame of a step with all that the steps before it have left."""
    figures: dict[str, Any] = {}
    filled: dict[str, Any] = {}
    trail: list[list[int]] = []
    for past in told["frames"][: step + 1]:
        trail = [] if past["kind"] == "delta" else trail
        trail = [*trail, past["tile"]] if past["tile"] else trail
        figures |= past["figures"]
        filled |= past["filled"]
    return {**told["frames"][step], "figures": figures, "filled": filled, "trail": trail}


def most_telling(trace: TileTrace, told: Story) -> int:
    """Return a step at which a maximum rises: late, and so that the past is about halved."""
    steps = [i for i, f in enumerate(told["frames"]) if f["tile"] and f["phase"] == "forward"]

    def rank(index: int) -> tuple[bool, float]:
        visit = trace.forward[index]
        late = 2 * visit.row >= len(trace.rows) - 1 and 2 * visit.column >= len(trace.columns) - 1
        shares = (abs(f - 0.5) for f in visit.column_of("rescale") if 0 < f < 1)
        return late, -min(shares, default=1.0)

    return steps[max(range(len(steps)), key=rank)]
