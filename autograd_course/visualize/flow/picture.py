"""A trace as a static picture with a text alternative."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from autograd_course.visualize.flow.describe import describe, script
from autograd_course.visualize.flow.layout import Layout, Sizes, layout, needed
from autograd_course.visualize.flow.png import png
from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.flow.svg import stage, svg
from autograd_course.visualize.flow.trace import Trace


@dataclass(frozen=True)
class Drawn:
    """A layout, the words that it is for, and the sizes that it gives them."""

    words: Script
    sizes: Sizes
    layout: Layout


@dataclass(frozen=True)
class Picture:
    """A trace, drawn when asked: PNG, SVG, and plain text for those who cannot see either.

    ``drawn`` is an earlier drawing: of the same graph with other numbers it is kept, as long as
    they fit in, so that nothing moves but the numbers.
    """

    trace: Trace
    drawn: Drawn | None = field(default=None, compare=False, repr=False)

    @cached_property
    def words(self) -> Script:
        """The trace in words."""
        return script(self.trace)

    @cached_property
    def layout(self) -> Layout:
        """Where everything stands."""
        return self.drawing.layout

    @cached_property
    def drawing(self) -> Drawn:
        """The layout, and what it was made for."""
        sizes, before = needed(self.words), self.drawn
        if before is None or before.words != self.words:
            return Drawn(self.words, sizes, layout(self.trace, self.words, sizes))
        enough = before.sizes.with_(sizes)
        if enough == before.sizes:
            return before
        return Drawn(self.words, enough, layout(self.trace, self.words, enough))

    def roomy(self, frames: Iterable[Sequence[str]]) -> Drawn:
        """Return the drawing with room for the texts of several frames."""
        sizes = self.drawing.sizes
        for texts in frames:
            sizes = sizes.with_(needed(replace(self.words, texts=tuple(texts))))
        if sizes == self.drawing.sizes:
            return self.drawing
        return Drawn(self.words, sizes, layout(self.trace, self.words, sizes))

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
