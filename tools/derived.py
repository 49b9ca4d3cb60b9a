"""Compute the contents of every derived file from the sources alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nbformat import NotebookNode

from tools.bundle import BUNDLES, bundles
from tools.cheat_sheet import cheat_sheet
from tools.exercises import exercise_cells
from tools.formatting import formatted
from tools.headings import with_facts
from tools.index import INDEX, Declared, declared, index, with_stars
from tools.lessons import Lesson, table, title_of, with_table, with_way_ahead
from tools.minutes import Kind, Minutes, modeled, sections
from tools.nbgrader import check_metadata
from tools.notebooks import load, unexecuted
from tools.page_books import messages_book, rules_book
from tools.percent import Source, parse, read, render
from tools.route import ROUTE, route, stops, with_route
from tools.settings import Settings, read_settings
from tools.setup_cell import refreshed
from tools.stated import with_minutes

LESSONS, SOLUTIONS, EXERCISES = "notebooks", "solutions", "exercises"
SHEET = Path("docs", "cheat_sheet.html")
BOOKS = {Path("docs", "rules.md"): rules_book, Path("docs", "error_messages.md"): messages_book}
FOLDERS = (LESSONS, SOLUTIONS, EXERCISES, BUNDLES)


@dataclass(frozen=True)
class Derived:
    """The files that are built from the sources of a course. The keys are paths.

    They are text files, and notebooks without outputs. The text files include the sources
    themselves, because the build also updates the badge, setup cell and layout of each source.
    """

    texts: Mapping[Path, str]
    notebooks: Mapping[Path, NotebookNode]


def derive(root: Path) -> Derived:
    """Compute all derived files of the course at ``root``, without executing anything.

    Raises AuthoringError if a source contains an error.
    """
    settings = read_settings(root)
    lessons = _sources(root / LESSONS)
    declared_exercises = _declared(root, lessons)
    points = {exercise.id: exercise.points for exercise in declared_exercises.values()}
    solved = _sources(root / SOLUTIONS)
    for source in solved:
        check_metadata(source, points)
    solved = [with_facts(source, declared_exercises) for source in solved]
    unsolved = [_exercise(source, root / EXERCISES) for source in solved]
    rows = _rows(lessons, declared_exercises)
    titles = {row.stem: row.title for row in rows}
    short = _route(root, titles, declared_exercises)
    lessons = [
        _with_route(with_way_ahead(with_minutes(source, row.minutes), titles), short)
        for source, row in zip(lessons, rows, strict=True)
    ]
    finished = [_finished(source, root, settings) for source in [*lessons, *solved, *unsolved]]
    texts = {source.path: render(source.cells) for source in finished}
    readme = root / "README.md"
    texts[root / INDEX] = index(declared_exercises, lessons, solved)
    old = readme.read_text(encoding="utf-8")
    texts[readme] = with_route(with_table(old, table(rows, settings), readme), short)
    texts |= {root / place: book() for place, book in BOOKS.items()}
    texts |= bundles(root)
    if sheet := cheat_sheet(lessons, settings):
        texts[root / SHEET] = sheet
    notebooks = {s.path.with_suffix(".ipynb"): unexecuted(s.cells) for s in finished}
    return Derived(texts, notebooks)


def lessons_of(root: Path) -> list[Lesson]:
    """Return the lessons of the course at ``root``, with the minutes for lessons and exercises.

    Raises AuthoringError if a source contains an error.
    """
    lessons = _sources(root / LESSONS)
    return _rows(lessons, _declared(root, lessons))


def declared_in(root: Path) -> dict[str, Declared]:
    """Return the exercises of the course at ``root``, with the extra sections that they need.

    Raises AuthoringError if a source contains an error.
    """
    return _declared(root, _sources(root / LESSONS))


def _declared(root: Path, lessons: Iterable[Source]) -> dict[str, Declared]:
    return with_stars(declared(root), {lesson.path.stem: kinds(lesson) for lesson in lessons})


def _rows(lessons: Iterable[Source], exercises: Mapping[str, Declared]) -> list[Lesson]:
    rows = []
    for source in lessons:
        asked = [each for each in exercises.values() if each.lesson == source.path.stem]
        rows.append(
            Lesson(
                source.path.stem,
                title_of(source),
                _modeled(source),
                len(asked),
                sum(each.minutes for each in asked if each.is_core),
                sum(each.minutes for each in asked if not each.is_core),
            )
        )
    return rows


def _route(root: Path, lessons: Iterable[str], exercises: Mapping[str, Declared]) -> str:
    """Return the text of the short route.

    The text is empty if the course lacks the lessons on the route.
    """
    stems = [stage.lesson for stage in ROUTE]
    built = {stem: load(root / LESSONS / f"{stem}.ipynb") for stem in stems if stem in lessons}
    executed = {stem: sections(notebook) for stem, notebook in built.items() if notebook}
    return route([*stops(executed, exercises)]) if len(executed) == len(stems) else ""


def _with_route(source: Source, short: str) -> Source:
    cells = [c if c.is_code else c.with_source(with_route(c.source, short)) for c in source.cells]
    return Source(source.path, tuple(cells))


def _modeled(source: Source) -> Minutes:
    """Compute a lesson's minutes from the built notebook, because only it has outputs."""
    built = load(source.path.with_suffix(".ipynb"))
    return Minutes(0) if built is None else modeled(built)


def kinds(lesson: Source) -> dict[str, Kind]:
    """Return the kind of each section in a lesson. The keys are headings."""
    return {part.heading: part.kind for part in sections(unexecuted(lesson.cells))}


def exercise(root: Path, name: str) -> Source:
    """Return an exercise notebook of the course at ``root``, such as ``03_….py``, as users get it.

    Raises AuthoringError if the solved notebook contains an error, or FileNotFoundError if there is
    no solved notebook.
    """
    unsolved = _exercise(read(root / SOLUTIONS / name), root / EXERCISES)
    return _finished(unsolved, root, read_settings(root))


def _sources(folder: Path) -> list[Source]:
    return [read(path) for path in sorted(folder.glob("*.py"))]


def _exercise(solution: Source, folder: Path) -> Source:
    return Source(folder / solution.path.name, exercise_cells(solution))


def _finished(source: Source, root: Path, settings: Settings) -> Source:
    """Return a source in which the badge, setup cell and layout are up to date."""
    place = PurePosixPath(source.path.relative_to(root).as_posix())
    text = render(refreshed(source, place, settings))
    return parse(formatted(text, source.path), source.path)
