"""The contents of a flow: its trace, its open modules, and its slider frames."""

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.flow.describe import Script, describe, script
from autograd_course.visualize.flow.figure import png
from autograd_course.visualize.flow.grouping import chosen, shown
from autograd_course.visualize.flow.layout import Layout, Sizes, layout, needed
from autograd_course.visualize.flow.record import trace_gradient_flow
from autograd_course.visualize.flow.svg import live_svg, svg
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import (
    finite_range,
    input_names,
    require_values,
    whole_number,
)
from autograd_course.visualize.kit.slider import among, positions

# --- A trace, drawn -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A layout, its script, and the sizes of the cards and labels."""

    words: Script
    sizes: Sizes
    layout: Layout


@dataclass(frozen=True)
class Picture:
    """A trace as PNG, SVG and plain text, each created on first use.

    ``drawn`` is an earlier drawing of the same graph with different numbers. If the new numbers
    fit, the picture reuses its layout, so no card moves.
    """

    trace: Trace
    drawn: Drawn | None = field(default=None, compare=False, repr=False)

    @cached_property
    def words(self) -> Script:
        """The text about the trace."""
        return script(self.trace)

    @cached_property
    def layout(self) -> Layout:
        """The positions of all parts of the picture."""
        return self.drawing.layout

    @cached_property
    def drawing(self) -> Drawn:
        """The layout, with its script and sizes."""
        sizes, before = needed(self.words), self.drawn
        if before is None or before.words != self.words:
            return Drawn(self.words, sizes, layout(self.trace, self.words, sizes))
        enough = before.sizes.with_(sizes)
        if enough == before.sizes:
            return before
        return Drawn(self.words, enough, layout(self.trace, self.words, enough))

    def roomy(self, frames: Iterable[Sequence[str]]) -> Drawn:
        """Return the drawing with cards that are wide enough for the text of several frames."""
        sizes = self.drawing.sizes
        for texts in frames:
            sizes = sizes.with_(needed(replace(self.words, texts=tuple(texts))))
        if sizes == self.drawing.sizes:
            return self.drawing
        return Drawn(self.words, sizes, layout(self.trace, self.words, sizes))

    @cached_property
    def png(self) -> bytes:
        """The picture as PNG. The same trace always gives the same bytes."""
        return png(self.words, self.layout)

    @cached_property
    def svg(self) -> str:
        """The picture as a self-contained SVG file."""
        return svg(self.words, self.layout, describe(self.trace))

    @cached_property
    def live_svg(self) -> str:
        """The picture as the SVG that the widget animates."""
        return live_svg(self.words, self.layout)

    def __repr__(self) -> str:
        return describe(self.trace)

    def _repr_png_(self) -> bytes:
        return self.png


# --- The effect of moving an input ----------------------------------------------------------------

Range = tuple[float, float]
Frame = Sequence[str] | None
Fold = Callable[[Trace], Trace]
HALF = 30  # the number of slider positions on each side of the middle
_LEAST_REACH = 3.0
_MOST_SLIDERS, _MOST_NODES = 3, 24  # larger graphs have sliders only if the caller requests them
_MOST_TEXT, _QUOTES = 900_000, 4  # the maximum size of all sweeps, and the overhead per string


@dataclass(frozen=True)
class Experiment:
    """A function, its inputs, and the ranges of the scalar inputs that have sliders."""

    fn: Any
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    ranges: Mapping[str, Range]

    def trace(self, at: Mapping[str, float]) -> Trace:
        """Trace the function with new values for the named inputs."""
        moved = {id(x): at[n] for n, x in self._named() if n in at}
        inputs = [_at(x, moved[id(x)]) if id(x) in moved else x for x in self.inputs]
        # If the same tensor was passed twice, the new tensor is also passed twice.
        again = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)}
        inputs = [again[id(old)] for old in self.inputs]
        return trace_gradient_flow(self.fn, *inputs, names=self.names)

    def values(self) -> dict[str, float]:
        """Return the original values of the inputs that have sliders."""
        return {name: x.item() for name, x in self._named() if name in self.ranges}

    def sliders(self, at: Mapping[str, float]) -> list[dict[str, Any]]:
        """Return a slider for each range: its values, their labels, and its position."""
        return [self._slider(name, at[name]) for name in self.ranges]

    def _slider(self, name: str, value: float) -> dict[str, Any]:
        values = self._places(name, value)
        labels = [f"{value:.4g}" for value in values]
        return {"name": name, "values": values, "labels": labels, "index": values.index(value)}

    def _places(self, name: str, value: float) -> list[float]:
        """Return round values in the range, along with the original and the current value."""
        places = positions(*self.ranges[name], self.values()[name], most=2 * HALF)
        if value in places:
            return places
        return among(places, value)

    def frames(
        self,
        name: str,
        values: Sequence[float],
        at: Mapping[str, float],
        words: Script,
        fold: Fold,
    ) -> Iterator[Frame]:
        """Yield the text for each value of one input. The other inputs keep their values.

        ``fold`` groups the nodes of a trace as in ``words``. If a value leads to a different graph
        or to an exception, the text is ``None``.
        """
        return (self._texts({**at, name: value}, words, fold) for value in values)

    def _texts(self, at: Mapping[str, float], words: Script, fold: Fold) -> Frame:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                moved = script(fold(self.trace(at)))
            except TraceError:
                return None
        return moved.texts if moved == words else None

    def _named(self) -> list[tuple[str, Tensor]]:
        return _scalars(self.inputs, self.names)


def experiment(
    fn: Any, inputs: Sequence[Any], names: Sequence[str] | None, sweep: Mapping[str, Range] | None
) -> Experiment:
    """Check the function and its inputs, and name the inputs.

    Without ``sweep``, there are no sliders.

    Raises :class:`TraceError` if an input has no values, or if a name in ``sweep`` is not a scalar
    input.
    """
    require_values(inputs)
    called = tuple(input_names(fn, inputs, names))
    movable = [name for name, _ in _scalars(inputs, called)]
    if wrong := [name for name in sweep or {} if name not in movable]:
        raise TraceError(
            f"sweep contains {wrong[0]!r}, which is not a scalar input; "
            f"the scalar inputs are: {', '.join(movable) or 'none'}."
        )
    ranges = {name: finite_range(name, pair) for name, pair in (sweep or {}).items()}
    return Experiment(fn, tuple(inputs), called, ranges)


def natural_ranges(inputs: Sequence[Any], names: Sequence[str], trace: Trace) -> dict[str, Range]:
    """Choose a range for each scalar input if the graph is small.

    The data for all sliders stays below a megabyte, so that a notebook opens quickly.
    """
    scalars = _scalars(inputs, names)
    if len(scalars) > _MOST_SLIDERS or len(trace.nodes) > _MOST_NODES:
        return {}
    frame = sum(len(text) + _QUOTES for text in script(trace).texts)
    fitting = _MOST_TEXT // (frame * (2 * HALF + 1))
    return {name: _around(x.item()) for name, x in scalars[:fitting]}


def _around(value: float) -> Range:
    """Return a range on both sides of 0, because derivatives often change there."""
    reach = max(_LEAST_REACH, 2 * abs(value))
    return -reach, reach


def _scalars(inputs: Sequence[Any], names: Sequence[str]) -> list[tuple[str, Tensor]]:
    seen: dict[int, tuple[str, Tensor]] = {}
    asked = any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
    for name, x in zip(names, inputs, strict=True):
        movable = isinstance(x, Tensor) and x.shape == () and x.is_floating_point()
        if movable and (x.requires_grad or not asked) and bool(x.isfinite()):
            seen.setdefault(id(x), (name, x))
    return list(seen.values())


def _at(tensor: Tensor, value: float) -> Tensor:
    return torch.full_like(tensor.detach(), value).requires_grad_(tensor.requires_grad)


# --- The content of a view ------------------------------------------------------------------------

Sweep = Mapping[str, Range] | bool


@dataclass(frozen=True)
class View:
    """A trace with all its nodes, and the groups that are open in its picture."""

    source: Experiment
    trace: Trace
    opened: tuple[int, ...]
    name: str = ""
    drawn: Drawn | None = field(default=None, compare=False, repr=False)

    @cached_property
    def picture(self) -> Picture:
        """The picture with folded modules."""
        return Picture(self.folded(self.trace), self.drawn)

    def folded(self, trace: Trace) -> Trace:
        """Fold the groups of a trace that are folded in this view."""
        return shown(trace, self.opened)

    def at(self, values: Mapping[str, float]) -> "View":
        """Return the view for different values of some inputs.

        The same modules stay open unless different modules run. Raises :class:`TraceError` if the
        function cannot be traced.
        """
        trace = self.source.trace(values)
        same = trace.groups == self.trace.groups
        opened = self.opened if same else tuple(chosen(trace))
        return replace(self, trace=trace, opened=opened, drawn=self.picture.drawing)

    def unfolded(self, opened: Sequence[int]) -> "View":
        """Return the view with these groups open. Unknown groups are ignored."""
        groups = sorted({group for group in opened if 0 <= group < len(self.trace.groups)})
        return replace(self, opened=tuple(groups))

    def roomy(self, frames: Iterable[Sequence[str]]) -> "View":
        """Return the view with cards wide enough for all frames, so that no card moves."""
        return replace(self, drawn=self.picture.roomy(frames))

    @property
    def phases(self) -> tuple[int, int]:
        """The number of forward steps and the number of backward steps, excluding the start."""
        phases = [step.phase for step in self.picture.words.steps]
        return phases.count("forward"), phases.count("backward")

    @property
    def texts(self) -> tuple[str, ...]:
        """The strings that fill the slots of the view."""
        return self.picture.words.texts

    def to_dict(self) -> dict[str, Any]:
        """Return the page's data without the strings that fill the slots."""
        words = asdict(replace(self.picture.words, texts=()))
        del words["texts"]
        return {**words, "name": self.name, "svg": self.picture.live_svg}

    def frames(
        self, name: str, values: Sequence[float], at: Mapping[str, float]
    ) -> Iterator[Frame]:
        """Yield the text for each value of one input."""
        return self.source.frames(name, values, at, self.picture.words, self.folded)


def view_of(
    fn: Any,
    inputs: Sequence[Any],
    names: Sequence[str] | None,
    sweep: Sweep,
    depth: int | None,
    name: str = "",
) -> View:
    """Trace a function and return its view. :func:`gradient_flow` explains the arguments."""
    if not isinstance(sweep, Mapping | bool):
        raise TraceError(
            'sweep must be True, False or a dict of ranges, such as {"x": (-3.0, 3.0)}.'
        )
    depth = None if depth is None else whole_number("depth", depth, 1)
    source = experiment(fn, inputs, names, sweep if isinstance(sweep, Mapping) else None)
    trace = source.trace({})
    if sweep is True:
        source = replace(source, ranges=natural_ranges(source.inputs, source.names, trace))
    return View(source, trace, tuple(sorted(chosen(trace, depth))), name)
