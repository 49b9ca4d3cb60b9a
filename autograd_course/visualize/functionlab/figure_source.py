"""The source column of the static picture: rows, what each left behind, and what ctx keeps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from autograd_course.visualize.functionlab import describe
from autograd_course.visualize.functionlab.listing import Listing
from autograd_course.visualize.functionlab.trace import Phase, Position, Step, Sweep

INK, GRAY, SOFT, FORWARD, BACKWARD = "#22262b", "#878f9a", "#5b636e", "#00609a", "#ad4300"
LINE = 0.168  # inches
_CHARACTER = 0.0654  # inches, at the size of the source
_COLUMNS = 80  # characters of a row of source and its note
_MOST_LINES = 44
_MONO = ["DejaVu Sans Mono"]  # comes with matplotlib: the same picture everywhere

Line = tuple[str, str, int]  # text, color, and after how many characters of the line above


def source_lines(
    sweep: Sweep, source: Listing, position: Position, steps: Sequence[Step]
) -> list[Line]:
    """Return what is to be written, cut after so many lines as a page can show."""
    lines = list(_all(sweep, source, position, steps))
    return lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], ("…", SOFT, 0)]


def write(figure: Figure, lines: Sequence[Line], left: float) -> None:
    """Write lines from the top of the figure; a note stands beside its row where it fits."""
    (width, height), at = figure.get_size_inches(), 0.62 - LINE
    look: Any = {"fontsize": 7.8, "fontfamily": _MONO, "va": "center", "parse_math": False}
    for index, (text, color, after) in enumerate(lines):
        beside = after > 0 and not text.startswith("→")
        at += 0 if beside and index else LINE
        place = left + after * _CHARACTER / width, 1 - (at - LINE) / height
        figure.text(*place, text, color=color, **look)


def _all(
    sweep: Sweep, source: Listing, position: Position, steps: Sequence[Step]
) -> Iterator[Line]:
    colors: Mapping[Phase, str] = {"forward": FORWARD, "backward": BACKWARD}
    notes, ran = describe.noted(steps), {step.row for step in steps}
    for phase in ("forward", "backward"):
        for part in (part for part in source.parts if part.phase == phase):
            for index, row in enumerate(part.rows, part.first):
                note = f"  {notes[index]}" if notes.get(index) else ""
                yield from _annotated(row, note, colors[part.phase], index in ran)
        if phase == "forward":
            yield from _held(source, position)
    yield "", INK, 0
    yield describe.sent_back(position, sweep.grad_output), BACKWARD, 0


def _held(source: Listing, position: Position) -> Iterator[Line]:
    yield "", INK, 0
    if source.own and position.run:
        kept = [describe.held(one) for one in position.run.kept] or ["nothing"]
        for word, text in zip(["ctx keeps", *[""] * len(kept)], kept, strict=False):
            yield f"{word:9} {text}", SOFT, 0
        yield "", INK, 0


def _annotated(row: str, note: str, color: str, ran: bool) -> Iterator[Line]:
    yield row, INK if ran else GRAY, 0
    if note and len(row) + len(note) <= _COLUMNS:
        yield note, color, len(row)  # on the same line
    elif note:
        yield f"→{note}"[: _COLUMNS - 6], color, 6
