"""What every derived file must hold, computed from the sources alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nbformat import NotebookNode

from tools.bundle import BUNDLES, bundles
from tools.cheat_sheet import cheat_sheet
from tools.exercises import exercise_cells
from tools.formatting import formatted
from tools.headings import summaries, with_facts
from tools.index import INDEX, Declared, declared, index
from tools.lessons import read_lesson, table, with_table
from tools.nbgrader import check_metadata
from tools.notebooks import unexecuted
from tools.page_books import messages_book, rules_book
from tools.percent import Source, parse, read, render
from tools.settings import Settings, read_settings
from tools.setup_cell import refreshed

LESSONS, SOLUTIONS, EXERCISES = "notebooks", "solutions", "exercises"
SHEET = Path("docs", "cheat_sheet.html")
BOOKS = {Path("docs", "rules.md"): rules_book, Path("docs", "error_messages.md"): messages_book}
FOLDERS = (LESSONS, SOLUTIONS, EXERCISES, BUNDLES)


@dataclass(frozen=True)
class Derived:
    """The derived files of a course: texts, and notebooks without their outputs, by path.

    The sources stand among the texts: their badge, their setup cell and their layout are derived.
    """

    texts: Mapping[Path, str]
    notebooks: Mapping[Path, NotebookNode]


def derive(root: Path) -> Derived:
    """Compute everything derived in the course at ``root``, without executing anything.

    Raises AuthoringError if a source is at fault.
    """
    settings = read_settings(root)
    declared_exercises = declared(root)
    points = {exercise.id: exercise.points for exercise in declared_exercises.values()}
    solved = _sources(root / SOLUTIONS)
    for source in solved:
        check_metadata(source, points)
    solved = [with_facts(source, declared_exercises) for source in solved]
    unsolved = [_exercise(source, root / EXERCISES) for source in solved]
    lessons = _sources(root / LESSONS)
    finished = [_finished(source, root, settings) for source in [*lessons, *solved, *unsolved]]
    texts = {source.path: render(source.cells) for source in finished}
    readme = root / "README.md"
    texts[root / INDEX] = index(declared_exercises, lessons, solved)
    texts[readme] = _readme(readme, lessons, declared_exercises.values(), settings)
    texts |= {root / place: book() for place, book in BOOKS.items()}
    texts |= bundles(root)
    if sheet := cheat_sheet(lessons, settings):
        texts[root / SHEET] = sheet
    notebooks = {s.path.with_suffix(".ipynb"): unexecuted(s.cells) for s in finished}
    return Derived(texts, notebooks)


def exercise(root: Path, name: str) -> Source:
    """Return one exercise notebook of the course at ``root``, named ``03_….py``, as it is shipped.

    Raises AuthoringError if its solved notebook is at fault, FileNotFoundError if there is none.
    """
    unsolved = _exercise(read(root / SOLUTIONS / name), root / EXERCISES)
    return _finished(unsolved, root, read_settings(root))


def _sources(folder: Path) -> list[Source]:
    return [read(path) for path in sorted(folder.glob("*.py"))]


def _exercise(solution: Source, folder: Path) -> Source:
    return Source(folder / solution.path.name, exercise_cells(solution))


def _finished(source: Source, root: Path, settings: Settings) -> Source:
    """Return a source with badge, setup cell and layout as they have to be."""
    place = PurePosixPath(source.path.relative_to(root).as_posix())
    text = render(refreshed(source, place, settings))
    return parse(formatted(text, source.path), source.path)


def _readme(
    path: Path, lessons: list[Source], exercises: Collection[Declared], settings: Settings
) -> str:
    rows = [read_lesson(source) for source in lessons]
    new_table = table(rows, summaries(exercises), settings)
    return with_table(path.read_text(encoding="utf-8"), new_table, path)
