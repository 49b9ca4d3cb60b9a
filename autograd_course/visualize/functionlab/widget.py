"""The live Function lab: drag x, change the parameters, and step through the lines that ran."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import traitlets
from torch import Tensor

from autograd_course.functions import ClippedReLU, ScaledSigmoid, Square, ToPolar, WeightedSum
from autograd_course.visualize.functionlab.describe import describe
from autograd_course.visualize.functionlab.figure import draw
from autograd_course.visualize.functionlab.lines import Listing, Step
from autograd_course.visualize.functionlab.subject import Range, Subject, subject
from autograd_course.visualize.functionlab.trace import Position, Sweep, listing_of, sweep
from autograd_course.visualize.functionlab.view import build_view
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.inputs import title
from autograd_course.visualize.kit.live import BUNDLES, FROM_PAGE, Live


class FunctionLab(Live):
    """One Function at a chosen x. :func:`function_lab` creates this widget.

    ``x`` is the current x, and ``step`` is the index of the current line, or -1 for the last line.
    Set ``choice`` to select a ``function`` by name and to change ``parameters``, which include
    ``grad_output``. Forward and backward then rerun over the range of x. Settings that ``choice``
    omits do not change. ``sweep`` contains the data.
    """

    _esm = BUNDLES / "functionlab.js"
    _css = BUNDLES / "functionlab.css"

    scene = traitlets.Dict().tag(sync=True)
    choice = traitlets.Dict().tag(**FROM_PAGE)
    x = traitlets.Float().tag(**FROM_PAGE)
    step = traitlets.Int(-1, min=-1).tag(**FROM_PAGE)

    def __init__(self, subjects: Mapping[str, Subject]) -> None:
        self._subjects = dict(subjects)
        self.function, first = next(iter(self._subjects.items()))
        self.parameters = first.values()
        self._source: Listing = listing_of(first)
        self.sweep: Sweep = sweep(first, first.x, self.parameters, self._source)
        super().__init__(scene=self._view(), x=first.x, choice=self._answers())
        self.observe(self._choose, "choice")
        self.observe(self._move, "x")

    @property
    def position(self) -> Position:
        """The data at the current x."""
        return self.sweep.positions[self.sweep.at(self.x)]

    @property
    def png(self) -> bytes:
        """The static picture."""
        return draw(self.sweep, self._source, self.sweep.at(self.x), self._steps())

    def __repr__(self) -> str:
        return describe(self.sweep, self._source, self.sweep.at(self.x))

    def _steps(self) -> tuple[Step, ...]:
        steps = self.position.steps
        return steps if self.step < 0 else steps[: self.step + 1]

    def _answers(self) -> dict[str, Any]:
        return {"function": self.function, "parameters": dict(self.parameters)}

    def _view(self, notice: str = "") -> dict[str, Any]:
        before = self.scene.get("ranges") if self._same_function else None
        view = build_view(self.sweep, self._subjects[self.function], self._source, before)
        names = list(self._subjects)
        return {**view, "functions": names, "answers": self._answers(), "notice": notice}

    @property
    def _same_function(self) -> bool:
        answers: Mapping[str, Any] = self.scene.get("answers", {})
        return answers.get("function") == self.function

    @traitlets.validate("x")
    def _finite(self, proposal: Any) -> float:
        if not math.isfinite(proposal["value"]):
            raise TraceError("x must be a finite number.")
        return float(proposal["value"])

    def _move(self, change: Any) -> None:
        """Run a new sweep that includes x if x is outside the range of the current one."""
        if abs(self.position.x - change["new"]) > 1e-9 * max(1.0, abs(change["new"])):
            self._run(self.function, self.parameters, change["new"])

    def _choose(self, change: Any) -> None:
        asked = change["new"]
        function = asked.get("function", self.function)
        try:
            values = self._values(function, asked.get("parameters", {}))
            self._run(function, values, self._place(function))
        except TraceError as error:
            # Always answer, because the page waits for an answer.
            self.scene = {**self.scene, "answers": asked, "notice": str(error)}

    def _values(self, function: str, asked: Mapping[str, Any]) -> dict[str, float]:
        if function not in self._subjects:
            raise TraceError(
                f"There is no function {function!r} in this lab; "
                f"choose one of: {', '.join(self._subjects)}."
            )
        known = self._subjects[function].values()
        # A different version of the same Function starts with the same parameters.
        values = dict(self.parameters) if known.keys() == self.parameters.keys() else known
        for name, value in asked.items():
            if name not in known or not isinstance(value, int | float) or not math.isfinite(value):
                raise TraceError(
                    f"{name} = {value!r} cannot be set in {function}; "
                    f"pass a finite number for one of: {', '.join(known)}."
                )
        return values | {name: float(value) for name, value in asked.items()}

    def _place(self, function: str) -> float:
        there = self._subjects[function]
        low, high = there.range(there.names[0])
        return self.x if low <= self.x <= high or function == self.function else there.x

    def _run(self, function: str, values: dict[str, float], x: float) -> None:
        there = self._subjects[function]
        source = self._source if function == self.function else listing_of(there)
        self.sweep = sweep(there, x, values, source)
        self.function, self.parameters, self._source = function, values, source
        view = self._view()
        with self.hold_sync():
            self.x = x
            self.scene = view


def function_lab(
    fn: Any = None,
    *parameters: Any,
    x: float | Tensor = 1.0,
    names: Sequence[str] | None = None,
    ranges: Mapping[str, Range] | None = None,
) -> FunctionLab:
    """Show a Function of one number x. Drag x to see forward and backward run line by line.

    For each x, forward and backward run once in float64, and the widget records which lines run.
    The slope from ``backward`` is ``∂L/∂x / grad_output``. The widget compares it with the slope of
    ``forward`` from finite differences, with a step of 1e-5 · max(1, \\|x\\|).

    Args:
        fn: A Function class or any callable, called as ``fn(x, *parameters)`` with scalars. You can
            also pass a list or a dict of several functions. By default, the lab shows the course's
            reference Functions.
        parameters: Further arguments. Numbers and scalar tensors have sliders. For arguments that
            you omit, the lab uses the default values in ``forward``.
        x: The first value of x.
        names: Names for x and the parameters.
        ranges: The ranges of the sliders, such as ``{"x": (-3.0, 3.0)}``.

    Returns:
        A widget for display in a notebook.

    Raises:
        TraceError: ``fn`` does not run or has no curve.

    Example:
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import function_lab
        >>> type(function_lab(Square, x=2.0)).__name__
        'FunctionLab'
    """
    if fn is None and (parameters or ranges):
        raise TraceError(
            "parameters and ranges need a function of your own; pass it first, "
            "as in function_lab(Square, ranges={'x': (-2, 2)})."
        )
    if fn is None:
        return FunctionLab(_references(x))
    found = {name: subject(name, one, parameters, x, names, ranges) for name, one in _named(fn)}
    return FunctionLab(found)


def _named(fn: Any) -> list[tuple[str, Any]]:
    if isinstance(fn, Mapping):
        pairs = [(str(name), one) for name, one in fn.items()]
    elif isinstance(fn, list | tuple):
        titles = [title(one) for one in fn]
        again = [titles[:i].count(name) for i, name in enumerate(titles)]
        called = [f"{n} {k + 1}" if k else n for n, k in zip(titles, again, strict=True)]
        pairs = list(zip(called, fn, strict=True))
    else:
        return [(title(fn), fn)]
    if not pairs:
        raise TraceError("You passed no function; pass at least one.")
    return pairs


to_polar: Callable[..., tuple[Tensor, Tensor]] = ToPolar.apply


def radius(x: Tensor, y: Tensor) -> Tensor:
    """Return the first of two outputs. Backward receives zeros for the second output."""
    r, _ = to_polar(x, y)
    return r


def angle(x: Tensor, y: Tensor) -> Tensor:
    """Return the second of two outputs, in radians."""
    _, theta = to_polar(x, y)
    return theta


def _references(x: float | Tensor) -> dict[str, Subject]:
    """Return the reference Functions that take one number x, with typical parameters."""
    one = torch.tensor(1.0)
    given: dict[str, tuple[Any, tuple[Any, ...], dict[str, Range]]] = {
        "Square": (Square, (), {}),
        "ScaledSigmoid": (ScaledSigmoid, (2.0, 1.5), {"x": (-4, 4)}),
        "ClippedReLU": (ClippedReLU, (3.0,), {"x": (-2, 6), "ceiling": (1, 6)}),
        "WeightedSum": (WeightedSum, (-one, one / 4), {"w": (0, 1)}),
        "ToPolar, radius": (radius, (one,), {}),
        "ToPolar, angle": (angle, (one,), {}),
    }
    return {
        name: subject(name, fn, parameters, x, None, ranges)
        for name, (fn, parameters, ranges) in given.items()
    }
