"""One flow on stage: what is traced, at which inputs, and which of its modules are open."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from autograd_course.visualize.flow.folding import chosen, shown
from autograd_course.visualize.flow.picture import Drawn, Picture
from autograd_course.visualize.flow.sweep import (
    Experiment,
    Frame,
    Range,
    experiment,
    natural_ranges,
)
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import whole_number

Sweep = Mapping[str, Range] | bool


@dataclass(frozen=True)
class Scene:
    """A trace with all its nodes, and the groups that are opened in its picture."""

    source: Experiment
    trace: Trace
    opened: tuple[int, ...]
    name: str = ""
    drawn: Drawn | None = field(default=None, compare=False, repr=False)

    @cached_property
    def picture(self) -> Picture:
        """The picture, modules folded."""
        return Picture(self.view(self.trace), self.drawn)

    def view(self, trace: Trace) -> Trace:
        """Fold a trace as this scene's is."""
        return shown(trace, self.opened)

    def at(self, values: Mapping[str, float]) -> "Scene":
        """Return the scene with some inputs at other values.

        Its modules stay open, unless others run there. Raises :class:`TraceError`.
        """
        trace = self.source.trace(values)
        same = trace.groups == self.trace.groups
        opened = self.opened if same else tuple(chosen(trace))
        return replace(self, trace=trace, opened=opened, drawn=self.picture.drawing)

    def unfolded(self, opened: Sequence[int]) -> "Scene":
        """Return the scene with other groups opened; what is no group is ignored."""
        groups = sorted({group for group in opened if 0 <= group < len(self.trace.groups)})
        return replace(self, opened=tuple(groups))

    def roomy(self, frames: Iterable[Sequence[str]]) -> "Scene":
        """Return the scene with room for other texts, too: nothing will move when they come."""
        return replace(self, drawn=self.picture.roomy(frames))

    @property
    def phases(self) -> tuple[int, int]:
        """How many steps the story has forward and back; the start is none."""
        told = [step.phase for step in self.picture.words.steps]
        return told.count("forward"), told.count("backward")

    @property
    def texts(self) -> tuple[str, ...]:
        """The numbers that fill the slots of what is told."""
        return self.picture.words.texts

    def told(self) -> dict[str, Any]:
        """Return what the page needs to know beside the texts."""
        words = asdict(replace(self.picture.words, texts=()))
        del words["texts"]
        return {**words, "name": self.name, "stage": self.picture.stage}

    def frames(
        self, name: str, values: Sequence[float], at: Mapping[str, float]
    ) -> Iterator[Frame]:
        """Yield the texts at each value of one input."""
        return self.source.frames(name, values, at, self.picture.words, self.view)


def scene(
    fn: Any,
    inputs: Sequence[Any],
    names: Sequence[str] | None,
    sweep: Sweep,
    depth: int | None,
    name: str = "",
) -> Scene:
    """Trace a function and put it on stage; see :func:`gradient_flow`."""
    if not isinstance(sweep, Mapping | bool):
        raise TraceError('sweep is True, False, or a range for each name: {"x": (-3.0, 3.0)}.')
    depth = None if depth is None else whole_number("depth", depth, 1)
    source = experiment(fn, inputs, names, sweep if isinstance(sweep, Mapping) else None)
    trace = source.trace({})
    if sweep is True:
        source = replace(source, ranges=natural_ranges(source.inputs, source.names, trace))
    return Scene(source, trace, tuple(sorted(chosen(trace, depth))), name)
