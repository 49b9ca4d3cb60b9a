"""A trace in words: templates, and apart from them the texts that fill their slots.

A template has numbered slots (``"∂ {4}"``). Two traces of one graph differ in the texts only, so
that a widget can exchange all numbers in one frame.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from zlib import crc32

from autograd_course.visualize.flow.trace import Kind, Source

Phase = Literal["start", "forward", "backward"]
_SLOT = re.compile(r"\{(\d+)\}")


When = Literal["value", "gradient"]
Row = tuple[str, str, When]


@dataclass(frozen=True)
class Map:
    """A heat map: ``code`` is a template for what :mod:`heat` writes."""

    code: str
    columns: int
    rows: int
    when: When


@dataclass(frozen=True)
class Card:
    """A node in words: what its card shows, its full name, and the rows of its details.

    A row is a term, a text, and what must be known of the node before it may be told. ``mark`` is
    the template of the gradient's mark (:mod:`marks`), ``source`` the number of a source in the
    script. ``opens`` is the group that a folded card opens into, ``within`` lists the opened groups
    around a card, innermost first, and ``badge`` is written on its rim.
    """

    kind: Kind
    title: str
    value: str
    gradient: str
    label: str
    details: tuple[Row, ...]
    mark: str
    badge: str = ""
    maps: tuple[Map, ...] = ()
    source: int | None = None
    opens: int | None = None
    within: tuple[int, ...] = ()

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
    """A trace in words. ``texts`` fill the slots.

    ``factors`` and ``marks`` belong to the trace's edges. ``groups`` names the groups by number,
    and ``sources`` holds what custom Functions are written as.
    """

    title: str
    cards: tuple[Card, ...]
    factors: tuple[str, ...]
    marks: tuple[str, ...]
    steps: tuple[Step, ...]
    groups: tuple[str, ...]
    sources: tuple[Source, ...]
    texts: tuple[str, ...] = field(compare=False)

    def fill(self, template: str) -> str:
        """Put the texts into a template's slots."""
        return _SLOT.sub(lambda slot: self.texts[int(slot[1])], template)


def shape(scripts: Sequence[Script]) -> int:
    """Return a number for all that the scripts tell but their texts: the same for the same."""
    return crc32(repr([replace(told, texts=()) for told in scripts]).encode())
