"""The live Function lab: drag x, move parameters, step through the lines that ran."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import traitlets

from autograd_course.visualize.functionlab.describe import account
from autograd_course.visualize.functionlab.figure import drawn
from autograd_course.visualize.functionlab.listing import Listing
from autograd_course.visualize.functionlab.subject import Subject
from autograd_course.visualize.functionlab.sweep import shown, sweep
from autograd_course.visualize.functionlab.trace import Position, Step, Sweep
from autograd_course.visualize.functionlab.view import scene
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import FROM_PAGE, KIT, Live, script, sheet

HERE = Path(__file__).parent
_SCRIPTS = (KIT / "player.js", KIT / "plot.js", HERE / "source.js", HERE / "curves.js")


class FunctionLab(Live):
    """One Function under the hand. Made by :func:`function_lab`.

    ``x`` is where the reader stands; setting it moves there. ``choice`` says which ``function``,
    by name, and which ``parameters`` (``grad_output`` among them); setting it runs forward and
    backward anew over the range of x, and what it leaves out stays as it was. ``step`` is the line
    that runs: an index, or -1 for the last one. ``sweep`` has the data.
    """

    _esm = script(*_SCRIPTS, HERE / "function_lab.js")
    _css = sheet(HERE / "function_lab.css")

    scene = traitlets.Dict().tag(sync=True)
    choice = traitlets.Dict().tag(**FROM_PAGE)
    x = traitlets.Float().tag(**FROM_PAGE)
    step = traitlets.Int(-1, min=-1).tag(**FROM_PAGE)

    def __init__(self, subjects: Mapping[str, Subject]) -> None:
        self._subjects = dict(subjects)
        self.function, first = next(iter(self._subjects.items()))
        self.parameters = first.values()
        self._source: Listing = shown(first)
        self.sweep: Sweep = sweep(first, first.x, self.parameters, self._source)
        super().__init__(scene=self._told(), x=first.x, choice=self._answers())
        self.observe(self._choose, "choice")
        self.observe(self._move, "x")

    @property
    def position(self) -> Position:
        """What is known at the present x."""
        return self.sweep.positions[self.sweep.at(self.x)]

    @property
    def png(self) -> bytes:
        """The static picture."""
        return drawn(self.sweep, self._source, self.sweep.at(self.x), self._steps())

    def __repr__(self) -> str:
        return account(self.sweep, self._source, self.sweep.at(self.x))

    def _steps(self) -> tuple[Step, ...]:
        steps = self.position.steps
        return steps if self.step < 0 else steps[: self.step + 1]

    def _answers(self) -> dict[str, Any]:
        return {"function": self.function, "parameters": dict(self.parameters)}

    def _told(self, notice: str = "") -> dict[str, Any]:
        before = self.scene.get("ranges") if self._same_function else None
        words = scene(self.sweep, self._subjects[self.function], self._source, before)
        names = list(self._subjects)
        return {**words, "functions": names, "answers": self._answers(), "notice": notice}

    @property
    def _same_function(self) -> bool:
        answers: Mapping[str, Any] = self.scene.get("answers", {})
        return answers.get("function") == self.function

    @traitlets.validate("x")
    def _finite(self, proposal: Any) -> float:
        if not math.isfinite(proposal["value"]):
            raise TraceError("x is a place on the axis: set it to a finite number.")
        return float(proposal["value"])

    def _move(self, change: Any) -> None:
        """Where x is off the sweep, run another one with x among its places."""
        if abs(self.position.x - change["new"]) > 1e-9 * max(1.0, abs(change["new"])):
            self._run(self.function, self.parameters, change["new"])

    def _choose(self, change: Any) -> None:
        asked = change["new"]
        function = asked.get("function", self.function)
        try:
            values = self._values(function, asked.get("parameters", {}))
            self._run(function, values, self._place(function))
        except TraceError as error:
            # Answered all the same, so that the page need not wait.
            self.scene = {**self.scene, "answers": asked, "notice": str(error)}

    def _values(self, function: str, asked: Mapping[str, Any]) -> dict[str, float]:
        if function not in self._subjects:
            raise TraceError(f"There is no {function!r} here, but {', '.join(self._subjects)}.")
        known = self._subjects[function].values()
        # Of two versions of a Function, the other one is met at the same parameters.
        values = dict(self.parameters) if known.keys() == self.parameters.keys() else known
        for name, value in asked.items():
            if name not in known or not isinstance(value, int | float) or not math.isfinite(value):
                raise TraceError(
                    f"{name} = {value!r} cannot be set in {function}; "
                    f"give a finite number to one of: {', '.join(known)}."
                )
        return values | {name: float(value) for name, value in asked.items()}

    def _place(self, function: str) -> float:
        there = self._subjects[function]
        low, high = there.range(there.names[0])
        return self.x if low <= self.x <= high or function == self.function else there.x

    def _run(self, function: str, values: dict[str, float], x: float) -> None:
        there = self._subjects[function]
        source = self._source if function == self.function else shown(there)
        self.sweep = sweep(there, x, values, source)
        self.function, self.parameters, self._source = function, values, source
        told = self._told()
        with self.hold_sync():
            self.x = x
            self.scene = told
