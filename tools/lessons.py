"""The lesson list, read from the lessons themselves, and its table in the README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.errors import AuthoringError
from tools.percent import Source
from tools.settings import Settings
from tools.setup_cell import badge

BEGIN, END = "<!-- lessons -->", "<!-- /lessons -->"

_TITLE = re.compile(r"^# (?:Lesson )?(?:\d+)?[\s.:·–—-]*(?P<title>\S.*)$", re.MULTILINE)
MINUTES = re.compile(r"(?P<minutes>\d+(?:\s*[–-]\s*\d+)?)\s+minutes")


@dataclass(frozen=True)
class Lesson:
    """A row of the table: where the lesson is, what it is called, how long it takes."""

    stem: str
    title: str
    minutes: str

    @property
    def number(self) -> str:
        """The two digits that lesson, exercises and solutions share."""
        return self.stem.partition("_")[0]


def read_lesson(source: Source) -> Lesson:
    """Read a lesson's row from its markdown: the first ``#`` heading, the first "N minutes"."""
    prose = "\n".join(cell.source for cell in source.cells if not cell.is_code)
    title, minutes = _TITLE.search(prose), MINUTES.search(prose)
    if title is None or minutes is None:
        raise AuthoringError(
            source.path,
            1,
            "a lesson needs a '# Title' and says how many minutes it takes",
            "write both into its first markdown cell",
        )
    return Lesson(source.path.stem, title["title"].strip(), minutes["minutes"])


def table(lessons: Iterable[Lesson], exercises: Mapping[str, str], settings: Settings) -> str:
    """Return the markdown table; ``exercises`` says by stem what exercises a lesson has."""
    rows = ["| | Lesson | Minutes | Exercises | |", "| --- | --- | --- | --- | --- |"]
    for lesson in sorted(lessons, key=lambda lesson: lesson.stem):
        path = PurePosixPath("notebooks", f"{lesson.stem}.ipynb")
        link = f"[{lesson.title}]({path})"
        asked = exercises.get(lesson.stem, "")
        cells = (lesson.number, link, lesson.minutes, asked, badge(path, settings))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def with_table(readme: str, new_table: str, path: Path) -> str:
    """Return the text of the README at ``path`` with the table between its two markers."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise AuthoringError(path, 1, "no place for the lesson table", f"add {BEGIN} {END}")
    return f"{head}{BEGIN}\n{new_table}\n{END}{tail}"
