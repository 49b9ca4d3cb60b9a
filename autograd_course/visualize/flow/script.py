"""A trace in words: templates, and apart from them the texts that fill their slots.

A template has numbered slots (``"∂ {4}"``). Two traces of one graph differ in the texts only, so
that a widget can exchange all numbers in one frame.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from autograd_course.visualize.flow.trace import Kind

Phase = Literal["start", "forward", "backward"]
_SLOT = re.compile(r"\{(\d+)\}")


Row = tuple[str, str, Literal["value", "gradient"]]


@dataclass(frozen=True)
class Card:
    """A node in words: what its card shows, its full name, and the rows of its details.

    A row is a term, a text, and what must be known of the node before it may be told.
    """

    kind: Kind
    title: str
    value: str
    gradient: str
    label: str
    details: tuple[Row, ...]

    @property
    def lines(self) -> tuple[str, str, str]:
        """The lines on the card; a sign, not only a color, marks the gradient."""
        return self.title, self.value, f"∂ {self.gradient}"


@dataclass(frozen=True)
class Step:
    """One step of the story: who acts, and which edges something travels along."""

    phase: Phase
    nodes: tuple[int, ...]
    edges: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Script:
    """A trace in words. ``factors`` belong to the trace's edges, ``texts`` fill the slots."""

    title: str
    cards: tuple[Card, ...]
    factors: tuple[str, ...]
    steps: tuple[Step, ...]
    texts: tuple[str, ...] = field(compare=False)

    def fill(self, template: str) -> str:
        """Put the texts into a template's slots."""
        return _SLOT.sub(lambda slot: self.texts[int(slot[1])], template)
