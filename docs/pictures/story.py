"""The animation of a trace as changes over time: values run forward, then gradients run back."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from autograd_course.visualize.flow.describe import Script, Step
from docs.pictures.timeline import Change, Window

SECONDS = {"start": 1.0, "forward": 1.3, "backward": 2.6}  # per step in each phase
TRAVEL, PAUSE, REST = 0.8, 0.2, 4.0  # seconds: along an edge, before a gradient leaves, at the end
_HIDDEN, _SEEN = "opacity:0", "opacity:1"


@dataclass(frozen=True)
class Story:
    """The steps of a trace, and the time of each step."""

    words: Script

    @cached_property
    def begins(self) -> tuple[float, ...]:
        """The start time of each step, and the time at which the last step ends."""
        return tuple(accumulate((SECONDS[step.phase] for step in self.words.steps), initial=0.0))

    @property
    def seconds(self) -> float:
        """The duration of the loop in seconds."""
        return self.begins[-1] + REST

    def changes(self) -> Iterator[Change]:
        """Yield all changes, in the order of the steps."""
        times = zip(self.words.steps, pairwise(self.begins), strict=True)
        for number, (step, (begin, end)) in enumerate(times):
            yield _shown(f"[data-step='{number}']", begin, end)
            if step.phase == "forward":
                yield from self._forward(step, begin)
            if step.phase == "backward":
                yield from self._backward(step, begin)
        yield _shown("[data-step='still']", self.begins[-1], self.seconds)
        yield from map(self._acting, range(len(self.words.cards)))

    def _forward(self, step: Step, begin: float) -> Iterator[Change]:
        """Draw the edges into a node, then write its value."""
        (node,) = step.nodes
        for edge in step.edges:
            yield self._drawn(f".run.forward[data-edge='{edge}']", begin, "100")
        yield _shown(f"[data-node='{node}'] .agf-value", begin + TRAVEL, self.seconds)

    def _backward(self, step: Step, begin: float) -> Iterator[Change]:
        """Write a node's gradient, then draw the edges back from it, with their factors."""
        (node,) = step.nodes
        there = begin + PAUSE + TRAVEL
        yield _shown(f"[data-node='{node}'] .agf-gradient", begin, self.seconds)
        for edge in step.edges:
            of = f"[data-edge='{edge}']"
            yield self._drawn(f".run.backward{of}", begin + PAUSE, "-100")
            yield _shown(f".agf-factor{of}", begin + TRAVEL / 2, self.seconds)
            yield _shown(f".head{of}", there, self.seconds)
            yield Change(f"{of} .agf-arrow", _SEEN, _HIDDEN, ((begin, self.seconds),))

    def _drawn(self, selector: str, begin: float, offset: str) -> Change:
        undrawn = f"opacity:1;stroke-dashoffset:{offset}"
        drawn = "opacity:1;stroke-dashoffset:0"
        return Change(selector, undrawn, drawn, ((begin, self.seconds),), over=TRAVEL)

    def _acting(self, node: int) -> Change:
        """Draw a second border around a card during the steps of its node."""
        windows: list[Window] = [
            (begin, end)
            for step, (begin, end) in zip(self.words.steps, pairwise(self.begins), strict=True)
            if step.phase != "start" and step.nodes == (node,)
        ]
        return Change(f".rim[data-node='{node}']", _HIDDEN, _SEEN, windows)


def _shown(selector: str, begin: float, end: float) -> Change:
    return Change(selector, _HIDDEN, _SEEN, ((begin, end),))
