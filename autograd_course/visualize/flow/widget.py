"""The live picture: step, play, scrub, look into nodes, move the inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import traitlets

from autograd_course.visualize.flow.picture import Picture
from autograd_course.visualize.flow.sweep import Experiment, Range, experiment, natural_ranges
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.live import KIT, Live, script, sheet

HERE = Path(__file__).parent


class GradientFlow(Live):
    """A trace on stage. Made by :func:`gradient_flow`.

    ``step`` is where the story stands, from 0 (inputs given) to ``steps``; setting it moves the
    picture. ``inputs`` holds the values of the inputs that have sliders; setting it traces anew.
    ``trace`` is the trace on stage and ``picture`` its static picture.
    """

    _esm = script(KIT / "player.js", HERE / "gradient_flow.js")
    _css = sheet(HERE / "picture.css", HERE / "gradient_flow.css")

    story = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0, min=0).tag(sync=True)
    inputs = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Experiment, trace: Trace, step: int = 0) -> None:
        self._source = source
        self.picture = Picture(trace)
        values = source.values()
        super().__init__(story=self._told(values), step=step, inputs=values)
        self.observe(self._follow, "inputs")

    @property
    def trace(self) -> Trace:
        """The trace on stage."""
        return self.picture.trace

    @property
    def steps(self) -> int:
        """The number of the last step, at which every gradient has arrived."""
        return len(self.picture.words.steps) - 1

    def _told(self, at: Mapping[str, float]) -> dict[str, Any]:
        words = self.picture.words
        return {
            **asdict(words),
            "stage": self.picture.stage,
            "sliders": self._source.sliders(at, words),
            "answers": dict(at),
            "notice": "",
        }

    @traitlets.validate("step")
    def _within_the_story(self, proposal: Any) -> int:
        return min(int(proposal["value"]), self.steps)

    def _follow(self, change: Any) -> None:
        at = {**self._source.values(), **change["new"]}
        try:
            self.picture = Picture(self._source.trace(at))
        except TraceError as error:
            self.story = {**self.story, "answers": at, "notice": str(error)}
            return
        self.story = self._told(at)
        self.step = min(self.step, self.steps)

    @property
    def png(self) -> bytes:
        """The static picture."""
        return self.picture.png

    def __repr__(self) -> str:
        return repr(self.picture)


def gradient_flow(
    fn: Any,
    *inputs: Any,
    names: Sequence[str] | None = None,
    sweep: Mapping[str, Range] | bool = True,
    step: int = 0,
) -> GradientFlow:
    """Show how values flow forward through ``fn(*inputs)``, and gradients back.

    ``fn`` is a ``torch.autograd.Function`` class or any callable that returns a tensor (the loss is
    the sum of its elements) or a tuple of some. Values and gradients come from one real forward and
    one real backward pass on copies of the inputs. ``names`` are for the inputs.

    ``sweep`` gives scalar inputs a slider: ``{"x": (-3.0, 3.0)}``; by default each scalar input of
    a small graph has one, with ``False`` none. ``step`` is where the story begins.

    Raises :class:`TraceError`, a sentence, for what cannot be traced.
    """
    asked = sweep if isinstance(sweep, Mapping) else None
    source = experiment(fn, inputs, names, asked)
    trace = source.trace({})
    if sweep is True:
        ranges = natural_ranges(source.inputs, source.names, Picture(trace))
        source = replace(source, ranges=ranges)
    return GradientFlow(source, trace, step)
