"""What happens as an input moves: traces over a range, computed before anybody drags."""

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.tracing import trace_gradient_flow
from autograd_course.visualize.flow.wording import script
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import finite_range, input_names, require_values
from autograd_course.visualize.kit.slider import among, positions

Range = tuple[float, float]
Frame = Sequence[str] | None
View = Callable[[Trace], Trace]
HALF = 30  # positions of a slider on each side of the middle
_LEAST_REACH = 3.0
_MOST_SLIDERS, _MOST_NODES = 3, 24  # beyond these, sliders are made only if asked for
_MOST_TEXT, _QUOTES = 900_000, 4  # characters of all sweeps; those around each text


@dataclass(frozen=True)
class Experiment:
    """A function, its inputs, and the ranges in which some of its scalar inputs may move."""

    fn: Any
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    ranges: Mapping[str, Range]

    def trace(self, at: Mapping[str, float]) -> Trace:
        """Trace the function with the named inputs at other values."""
        moved = {id(x): at[n] for n, x in self._named() if n in at}
        inputs = [_at(x, moved[id(x)]) if id(x) in moved else x for x in self.inputs]
        # Where one tensor was given twice, one tensor is given again.
        again = {id(old): new for old, new in zip(self.inputs, inputs, strict=True)}
        inputs = [again[id(old)] for old in self.inputs]
        return trace_gradient_flow(self.fn, *inputs, names=self.names)

    def values(self) -> dict[str, float]:
        """Return the given values of the inputs that may move."""
        return {name: x.item() for name, x in self._named() if name in self.ranges}

    def sliders(self, at: Mapping[str, float]) -> list[dict[str, Any]]:
        """Return a slider for each range: its values, their labels, and where it stands."""
        return [self._slider(name, at[name]) for name in self.ranges]

    def _slider(self, name: str, value: float) -> dict[str, Any]:
        values = self._places(name, value)
        labels = [f"{value:.4g}" for value in values]
        return {"name": name, "values": values, "labels": labels, "index": values.index(value)}

    def _places(self, name: str, value: float) -> list[float]:
        """Return round values and the given one; the present one is mostly among them."""
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
        view: View,
    ) -> Iterator[Frame]:
        """Yield the texts to show at each value of one input, the others staying where they are.

        ``view`` folds a trace as ``words`` tell it. A value at which the graph is another, or the
        function raises, has ``None`` for texts.
        """
        return (self._texts({**at, name: value}, words, view) for value in values)

    def _texts(self, at: Mapping[str, float], words: Script, view: View) -> Frame:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                moved = script(view(self.trace(at)))
            except TraceError:
                return None
        return moved.texts if moved == words else None

    def _named(self) -> list[tuple[str, Tensor]]:
        return _scalars(self.inputs, self.names)


def experiment(
    fn: Any, inputs: Sequence[Any], names: Sequence[str] | None, sweep: Mapping[str, Range] | None
) -> Experiment:
    """Check and name what is to be traced. Without ``sweep`` nothing may move.

    Raises :class:`TraceError` if an input has no values, or ``sweep`` names no scalar input.
    """
    require_values(inputs)
    called = tuple(input_names(fn, inputs, names))
    movable = [name for name, _ in _scalars(inputs, called)]
    if wrong := [name for name in sweep or {} if name not in movable]:
        raise TraceError(
            f"sweep names {wrong[0]!r}, which is not a scalar input; "
            f"those are: {', '.join(movable) or 'none'}."
        )
    ranges = {name: finite_range(name, pair) for name, pair in (sweep or {}).items()}
    return Experiment(fn, tuple(inputs), called, ranges)


def natural_ranges(inputs: Sequence[Any], names: Sequence[str], trace: Trace) -> dict[str, Range]:
    """Choose a range for each scalar input of a small graph; none where that would be many.

    All sweeps together stay below a megabyte, so that a notebook opens at once.
    """
    scalars = _scalars(inputs, names)
    if len(scalars) > _MOST_SLIDERS or len(trace.nodes) > _MOST_NODES:
        return {}
    frame = sum(len(text) + _QUOTES for text in script(trace).texts)
    fitting = _MOST_TEXT // (frame * (2 * HALF + 1))
    return {name: _around(x.item()) for name, x in scalars[:fitting]}


def _around(value: float) -> Range:
    """Return a range on both sides of 0, where derivatives change: that is what one drags for."""
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
