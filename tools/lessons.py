"""The list of lessons, which comes from the lesson sources, and the tables that show it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

from autograd_course.index import LAST_OF_THE_CORE_PATH
from tools.errors import AuthoringError
from tools.minutes import Minutes
from tools.percent import Source
from tools.settings import Settings
from tools.setup_cell import badge
from tools.stated import stated

BEGIN, END = "<!-- lessons -->", "<!-- /lessons -->"
# The core of a lesson should not take longer than this, because learners read it in one sitting.
LONGEST = 60

_TITLE = re.compile(r"^# (?:Lesson )?(?:\d+)?[\s.:·–—-]*(?P<title>\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Lesson:
    """A row in the tables of lessons: the lesson's file, title and minutes.

    ``core_exercises`` and ``other_exercises`` are the minutes for the core exercises, and for
    exercises that have a star or are optional.
    """

    stem: str
    title: str
    minutes: Minutes
    exercises: int = 0
    core_exercises: int = 0
    other_exercises: int = 0

    @property
    def number(self) -> str:
        """The two digits at the start of the file names of the lesson and its exercises."""
        return self.stem.partition("_")[0]

    @property
    def path(self) -> str:
        """The name of the lesson's learning path."""
        return "Core path" if self.number <= LAST_OF_THE_CORE_PATH else "Electives"


def title_of(lesson: Source) -> str:
    """Return a lesson's title, which is its first ``#`` heading without the number."""
    prose = "\n".join(cell.source for cell in lesson.cells if not cell.is_code)
    title = _TITLE.search(prose)
    if title is None:
        problem, repair = "a lesson needs a '# Title'", "write it into its first markdown cell"
        raise AuthoringError(lesson.path, 1, problem, repair)
    return title["title"].strip()


def table(lessons: Sequence[Lesson], settings: Settings) -> str:
    """Return the README's table of lessons in order, and a sentence with the total minutes."""
    rows = ["| | Lesson | Reading | Exercises | |", "| --- | --- | --- | --- | --- |"]
    for path, those in _paths(lessons):
        reading, solving = _sum(_hours(_reading(those))), _sum(_hours(_solving(those)))
        rows.append(f"| | **{path}** | **{reading} hours** | **{solving} hours** | |")
        rows += [_row(lesson, settings) for lesson in those]
    return "\n".join([*rows, "", _totals(lessons)])


def _paths(lessons: Sequence[Lesson]) -> Iterator[tuple[str, list[Lesson]]]:
    for path, those in groupby(lessons, key=lambda lesson: lesson.path):
        yield path, list(those)


def _row(lesson: Lesson, settings: Settings) -> str:
    path = PurePosixPath("notebooks", f"{lesson.stem}.ipynb")
    reading, solving = _reading([lesson]), _solving([lesson])
    asked = f"{lesson.exercises} exercise{'' if lesson.exercises == 1 else 's'}"
    solved = f"[{asked}](exercises/{lesson.stem}.ipynb), {_sum(solving)} min"
    cells = (
        lesson.number,
        f"[{lesson.title}]({path})",
        f"{_sum(reading)} min",
        solved if lesson.exercises else "",
        badge(path, settings),
    )
    return f"| {' | '.join(cells)} |"


def _reading(lessons: Sequence[Lesson]) -> tuple[int, int]:
    """Return the minutes that the lessons state for core sections and for extra sections."""
    core = sum(stated(lesson.minutes.core) for lesson in lessons)
    return core, sum(stated(lesson.minutes.extra) for lesson in lessons)


def _solving(lessons: Sequence[Lesson]) -> tuple[int, int]:
    """Return the declared minutes for core exercises and for all other exercises."""
    core = sum(lesson.core_exercises for lesson in lessons)
    return core, sum(lesson.other_exercises for lesson in lessons)


def _sum(minutes: tuple[int, int]) -> str:
    core, more = minutes
    return f"{core} + {more}" if more else str(core)


def _hours(minutes: tuple[int, int]) -> tuple[int, int]:
    core, more = minutes
    return round(core / 60), round(more / 60)


def _totals(lessons: Sequence[Lesson]) -> str:
    hours = [(*_hours(_reading(those)), *_hours(_solving(those))) for _, those in _paths(lessons)]
    path = hours[0][0] + hours[0][2]  # core sections plus core exercises
    everything = sum(map(sum, hours))
    return (
        "The first number of a sum is for the core sections or exercises. "
        f"The core path takes about {path} hours. It consists of the *core* sections of its "
        "lessons and the exercises that have no star and are not optional. The whole course takes "
        f"about {everything} hours."
    )


def account_of_course(lessons: Sequence[Lesson]) -> str:
    """Return a line with the minutes of each lesson and its exercises, then a line of totals."""
    named = [(lesson.stem, [lesson]) for lesson in lessons]
    sums = [(path.lower(), those) for path, those in _paths(lessons)]
    head = f"{'':24} {'core':>6} {'extra':>6} {'reference':>10} {'exercises':>10} {'others':>8}"
    return "\n".join([head, *(_account(*row) for row in [*named, *sums, ("total", lessons)])])


def _account(name: str, lessons: Sequence[Lesson]) -> str:
    core, extra, reference, exercises, others = (
        sum(column)
        for column in zip(
            *(
                (
                    lesson.minutes.core,
                    lesson.minutes.extra,
                    lesson.minutes.reference,
                    lesson.core_exercises,
                    lesson.other_exercises,
                )
                for lesson in lessons
            ),
            strict=True,
        )
    )
    return f"{name:24} {core:6.1f} {extra:6.1f} {reference:10.1f} {exercises:10.0f} {others:8.0f}"


def warning(lesson: Lesson) -> str:
    """Return a warning if the core of a lesson is too long, or an empty string otherwise."""
    if lesson.minutes.core <= LONGEST:
        return ""
    return (
        f"warning: the core of {lesson.stem} takes {lesson.minutes.core:.0f} minutes, more than "
        f"{LONGEST}: shorten it, or mark a section that no core exercise needs: '*Extra: …*'"
    )


def with_table(text: str, new_table: str, path: Path) -> str:
    """Return the text of the file at ``path``, with the new table between the two markers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise AuthoringError(path, 1, "no place for the lesson table", f"add {BEGIN} {END}")
    return f"{head}{BEGIN}\n{new_table}\n{END}{tail}"


def with_way_ahead(source: Source, titles: Mapping[str, str]) -> Source:
    """Update the file names and titles in a lesson's table of lessons, if it has one.

    The last column states the purpose of each lesson. Authors write it by hand, and the update
    keeps it. Raises AuthoringError if the purpose of a lesson is missing.
    """
    return Source(
        source.path,
        tuple(
            cell.with_source(
                with_table(cell.source, _way_ahead(cell.source, titles, source.path), source.path)
            )
            if not cell.is_code and BEGIN in cell.source
            else cell
            for cell in source.cells
        ),
    )


def _way_ahead(text: str, titles: Mapping[str, str], path: Path) -> str:
    purposes = dict(re.findall(r"^\| (\d\d) \|.*\| (\S[^|]*?) \|$", text, re.MULTILINE))
    rows = ["| | Lesson | What it is for |", "| --- | --- | --- |"]
    for name, those in _paths([Lesson(stem, title, Minutes(0)) for stem, title in titles.items()]):
        rows.append(f"| | **{name}** | |")
        for lesson in those:
            if lesson.number not in purposes:
                problem = (
                    f"the table of the lessons does not say what lesson {lesson.number} is for"
                )
                repair = f"add the line '| {lesson.number} | | what it is for |' to it"
                raise AuthoringError(path, 1, problem, repair)
            link = f"[{lesson.title}]({lesson.stem}.ipynb)"
            rows.append(f"| {lesson.number} | {link} | {purposes[lesson.number]} |")
    return "\n".join(rows)
