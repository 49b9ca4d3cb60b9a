"""The short route for readers with little time: sections to read and exercises to solve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from tools.errors import AuthoringError
from tools.index import Declared
from tools.minutes import Section
from tools.stated import stated

BEGIN, END = "<!-- route -->", "<!-- /route -->"
_WIDTH = 96


@dataclass(frozen=True)
class Stage:
    """The part of the route in one lesson: sections to read and exercises to solve."""

    lesson: str
    sections: tuple[str, ...]
    exercises: tuple[str, ...]


ROUTE = (
    Stage(
        "01_template",
        (
            "Your first Function",
            "What backward is asked for",
            "Exercise 1: square",
            "A function that autograd cannot differentiate",
            "What goes where on ctx",
            "What backward returns",
            "A third method: setup_context",
            "A template with an optional argument",
            "Train it in a module",
            "What gradcheck cannot see",
            "A test for your own project",
        ),
        ("square",),
    ),
    Stage(
        "02_ctx_rules",
        (
            "A swing that does not go up",
            "Separate forward and setup_context",
            "Exercise 1: snake",
        ),
        ("snake",),
    ),
    Stage(
        "03_gradient_patterns",
        (
            "Copies forward, sums backward",
            "Broadcasting is a copy",
            "Exercise 2: multiply with broadcasting",
        ),
        ("broadcast-multiply",),
    ),
)


@dataclass(frozen=True)
class Stop:
    """An item in the list: the lesson's number, what to read and solve, and the minutes."""

    number: str
    read: tuple[str, ...]
    solve: tuple[str, ...]
    reading: int
    solving: int


def stops(
    lessons: Mapping[str, Sequence[Section]], exercises: Mapping[str, Declared]
) -> Iterator[Stop]:
    """Yield the items of the route, based on the sections of the executed lessons.

    Raises AuthoringError if a section or an exercise is missing or is not part of the core.
    """
    for stage in ROUTE:
        path = Path("notebooks", f"{stage.lesson}.py")
        core = {part.heading: part for part in lessons[stage.lesson] if part.kind == "core"}
        if strange := [heading for heading in stage.sections if heading not in core]:
            problem = f"the route reads {strange[0]!r}, which is not a core section"
            raise AuthoringError(path, 1, problem, "correct ROUTE in tools/route.py")
        if strange := [name for name in stage.exercises if not exercises[name].is_core]:
            problem = f"the route solves {strange[0]!r}, which is not a core exercise"
            raise AuthoringError(path, 1, problem, "correct ROUTE in tools/route.py")
        yield Stop(
            stage.lesson.partition("_")[0],
            stage.sections,
            tuple(exercises[name].title for name in stage.exercises),
            stated(sum(core[heading].minutes for heading in stage.sections)),
            sum(exercises[name].minutes for name in stage.exercises),
        )


def point(stop: Stop) -> str:
    """Return an item of the list, with lines short enough for a comment."""
    read = ", ".join(f"*{heading}*" for heading in stop.read)
    solve = " and ".join(f"*{title}*" for title in stop.solve)
    return fill(
        f"- **Lesson {stop.number}:** read {read} ({stop.reading} minutes). "
        f"Solve {solve} ({stop.solving} minutes).",
        width=_WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def route(at: Sequence[Stop]) -> str:
    """Return the list of items, and a sentence with the total minutes."""
    total = sum(stop.reading + stop.solving for stop in at)
    return "\n".join([*map(point, at), "", f"Together, this takes about {total} minutes."])


def with_route(text: str, made: str) -> str:
    """Return a text with the route between its two markers, if the text contains them."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{made}\n{END}{tail}" if begin and end else text
