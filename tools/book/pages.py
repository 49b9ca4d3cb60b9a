"""All files of the book, by path. Their contents come from the course."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat

from docs.pictures.flow import flow
from tools.book import notebook_pages
from tools.book.contents import Part, hidden
from tools.book.front import fronted
from tools.book.links import MOVED, Places, relinked
from tools.book.live import LivePage, recorded, scripts
from tools.book.recording import shown
from tools.book.reference import MESSAGES_PAGE, RULES_PAGE, SPLIT, reference
from tools.book.running import enlivened, is_live
from tools.book.sheet import sheet
from tools.settings import read_settings

FRONT, SHEET = MOVED["README.md"], MOVED["docs/cheat_sheet.html"]
FIRST = "docs/five_functions.md"  # this page does not need the course
PROJECT = ("CONTRIBUTING.md", "ARCHITECTURE.md")
_COPIED = ("docs/*.pdf", "docs/*.png", "docs/*.svg", "docs/pictures/*.png", "docs/pictures/*.svg")


@dataclass(frozen=True)
class Book:
    """The book's generated text files, and the course files that it contains unchanged.

    The keys of ``texts`` are paths.

    ``scripts`` contains the scripts of the book's widgets. The keys are file names in the site's
    folder ``live``.
    """

    texts: Mapping[str, str]
    copied: tuple[str, ...]
    scripts: Mapping[str, str]


@dataclass(frozen=True)
class Course:
    """The files and lessons of a course. All paths are relative to the course's root."""

    lessons: tuple[str, ...]
    exercises: tuple[str, ...]
    guides: tuple[str, ...]
    copied: tuple[str, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that the table of contents lists."""
        looked_up = (SHEET, RULES_PAGE, MESSAGES_PAGE)
        return (
            Part("In ten minutes", (FIRST,)),
            Part("Lessons", self.lessons),
            Part("Exercises", self.exercises),
            Part("To look up", looked_up),
            Part("Guides", tuple(page for page in self.guides if page != FIRST)),
            Part("The project", PROJECT),
        )


def book(root: Path) -> Book:
    """Return the book for the course at ``root``. Raises AuthoringError if a link is dead."""
    course = found(root)
    places = _places(root, course)
    plain = {path: _read(root, path) for path in (*course.guides, *PROJECT)}
    notebooks = (*course.lessons, *course.exercises)
    loaded = scripts(root)
    colab = places.settings.colab_url("notebooks/01_template.ipynb")
    for path in filter(lambda path: is_live(plain[path]), course.guides):
        live = LivePage(path, colab)
        plain[path] = enlivened(plain[path], live)
        loaded |= live.files
    texts = {path: relinked(text, path, places) for path, text in plain.items()}
    for path in notebooks:
        live = LivePage(path, places.settings.colab_url(path), recorded(root, path))
        notebook = nbformat.read(root / path, as_version=4)
        texts[path] = nbformat.writes(notebook_pages.page(notebook, path, places, live))
        loaded |= live.files
    texts |= reference(root, places)
    texts[SHEET] = sheet(root, course.lessons, places)
    live = LivePage(FRONT, colab)
    front = fronted(_read(root, "README.md"), live.widget(shown(flow())))
    texts[FRONT] = relinked(front, "README.md", places) + hidden(course.parts)
    loaded |= live.files
    return Book(texts, course.copied, loaded)


def found(root: Path) -> Course:
    """Find the contents of the course at ``root``."""
    return Course(
        lessons=_matching(root, "notebooks/*.ipynb"),
        exercises=_matching(root, "exercises/*.ipynb"),
        guides=tuple(path for path in _matching(root, "docs/*.md") if path not in SPLIT),
        copied=tuple(path for pattern in _COPIED for path in _matching(root, pattern)),
    )


def _matching(root: Path, pattern: str) -> tuple[str, ...]:
    return tuple(sorted(path.relative_to(root).as_posix() for path in root.glob(pattern)))


def _places(root: Path, course: Course) -> Places:
    """Return the targets of links.

    If a rule and a message have the same name, links lead to the rule.
    """
    listed = {page for part in course.parts for page in part.pages}
    names = {Path(path).stem: path for path in course.lessons}
    names |= SPLIT[MESSAGES_PAGE] | SPLIT[RULES_PAGE]
    files = frozenset({FRONT, *listed, *course.copied})
    return Places(root, read_settings(root), files, names, SPLIT)


def _read(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8")
