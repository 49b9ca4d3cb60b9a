"""A trace as a static picture with a text alternative."""

from dataclasses import dataclass
from functools import cached_property

from autograd_course.visualize.flow.layout import Layout, layout
from autograd_course.visualize.flow.png import png
from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.flow.svg import stage, svg
from autograd_course.visualize.flow.trace import Trace
from autograd_course.visualize.flow.wording import describe, script


@dataclass(frozen=True)
class Picture:
    """A trace, drawn when asked: PNG, SVG, and plain text for those who cannot see either."""

    trace: Trace

    @cached_property
    def words(self) -> Script:
        """The trace in words."""
        return script(self.trace)

    @cached_property
    def layout(self) -> Layout:
        """Where everything stands."""
        return layout(self.trace, self.words)

    @cached_property
    def png(self) -> bytes:
        """The picture as PNG; the same bytes for the same trace."""
        return png(self.words, self.layout)

    @cached_property
    def svg(self) -> str:
        """The picture as an SVG file that needs nothing else."""
        return svg(self.words, self.layout, describe(self.trace))

    @cached_property
    def stage(self) -> str:
        """The picture as the SVG that the widget animates."""
        return stage(self.words, self.layout)

    def __repr__(self) -> str:
        return describe(self.trace)

    def _repr_png_(self) -> bytes:
        return self.png
