"""Shell completion for lessons, exercises and rules. This module imports nothing large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from autograd_course.folders import COURSE, DOCTOR
from autograd_course.index import INDEX, LESSONS

_RULES, _MESSAGES = DOCTOR / "_rules", COURSE / "messages"


def exercises(incomplete: str) -> list[str]:
    """Return the exercise ids that start with the typed text."""
    return _begun(incomplete, INDEX)


def lessons(incomplete: str) -> list[str]:
    """Return the numbers of the lessons that have exercises."""
    return _begun(incomplete, (lesson[:2] for lesson in LESSONS))


def lessons_and_exercises(incomplete: str) -> list[str]:
    """Return lesson numbers and exercise ids."""
    return [*lessons(incomplete), *exercises(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Return the arguments that ``grade`` and ``watch`` accept: numbers, files and ids."""
    return [*lessons(incomplete), *_files(incomplete), *exercises(incomplete)]


def rules(incomplete: str) -> list[str]:
    """Return the names of the rules."""
    return _begun(incomplete, _pages(_RULES))


def explained(incomplete: str) -> list[str]:
    """Return the names of all pages that ``explain`` can show: rules and messages."""
    return _begun(incomplete, (*_pages(_RULES), *_pages(_MESSAGES)))


def _pages(folder: Path) -> list[str]:
    return sorted(page.stem for page in folder.glob("*.md"))


def _files(incomplete: str) -> Iterator[str]:
    """Yield exercise files that start with the typed text, including those in ``exercises/``."""
    typed = Path(incomplete)
    folder = typed if incomplete.endswith("/") else typed.parent
    for path in sorted([*folder.glob("*"), *folder.glob("exercises/*")]):
        fits = path.stem in LESSONS and path.suffix in (".py", ".ipynb")
        if fits and str(path).startswith(incomplete):
            yield str(path)


def _begun(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
