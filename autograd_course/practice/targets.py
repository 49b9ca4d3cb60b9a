"""The target that the user names for a command: an exercise file, a lesson or an exercise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from autograd_course.errors import CourseError
from autograd_course.index import INDEX, LESSONS, id_typed, lesson_with, similar
from autograd_course.lab.folder import GET, LabError, course_folder

FOLDER = "exercises"
SUFFIXES = (".py", ".ipynb")


class TargetError(CourseError, LookupError):
    """Raised if the target does not exist. The message is one sentence for the learner."""


@dataclass(frozen=True)
class Target:
    """One exercise notebook: its possible files, and the selected exercises.

    ``lesson`` is empty if the file name does not contain a lesson number. ``only`` is empty if all
    exercises of the notebook are selected.
    """

    files: tuple[Path, ...]
    lesson: str = ""
    only: tuple[str, ...] = ()

    @property
    def latest(self) -> Path | None:
        """The file that was saved most recently: the notebook or the script."""
        saved = {path: when for path in self.files if (when := _saved(path))}
        return max(saved, key=saved.__getitem__, default=None)


def target(word: str, exercises: Iterable[str] = (), here: Path | None = None) -> Target:
    """Return the target for ``03``, ``exercises/03_gradient_patterns.py`` or ``gelu``, for example.

    ``exercises`` contains the ids of other selected exercises. Raises :class:`TargetError`.
    """
    here = here or Path.cwd()
    only = tuple(_known(name) for each in exercises for name in each.split(",") if name.strip())
    path = Path(word)
    if path.suffix in SUFFIXES:
        found = Target((_file(path, here),), path.stem if path.stem in LESSONS else "", only)
    elif lesson := _lesson(word):
        found = Target(_files(lesson, here), lesson, only)
    else:
        exercise = _known(word, "lesson, file or ")
        found = Target(_files(lesson_with(exercise), here), lesson_with(exercise), (exercise,))
    _agree(found)
    return found


def _lesson(word: str) -> str:
    """Return the lesson named ``03``, ``3`` or ``03_gradient_patterns``, if it exists."""
    return next((lesson for lesson in LESSONS if word.zfill(2) in (lesson, lesson[:2])), "")


def _known(word: str, among: str = "") -> str:
    """Return the exact id of an exercise. The user can type the id in any case."""
    typed = id_typed(word)
    if lesson_with(typed):
        return typed
    near = similar(typed, [*INDEX, *LESSONS] if among else INDEX)
    meant = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "autograd-course status lists all exercises."
    )
    raise TargetError(f"there is no {among}exercise {word!r}; {meant}")


def _file(path: Path, here: Path) -> Path:
    places = [here / path, *(folder / path.name for folder in _folders(here))]
    if (found := next((place for place in places if place.is_file()), None)) is not None:
        return found
    beside = [each.name for folder in _folders(here) for each in folder.glob(f"*{path.suffix}")]
    near = get_close_matches(path.name, beside, 1)
    raise TargetError(f"there is no file {path}{f'; did you mean {near[0]}?' if near else '.'}")


def _files(lesson: str, here: Path) -> tuple[Path, ...]:
    """Return the files of a lesson's exercises in the first folder that contains them."""
    for folder in _folders(here):
        files = tuple(folder / f"{lesson}{suffix}" for suffix in SUFFIXES)
        if any(file.is_file() for file in files):
            return files
    raise TargetError(
        f"there is no {lesson}.py or {lesson}.ipynb here. Change into your copy of the course, or "
        f"get one with {GET}"
    )


def _folders(here: Path) -> Iterator[Path]:
    yield from (here, here / FOLDER)
    try:
        yield course_folder(here) / FOLDER
    except LabError:
        return


def _agree(found: Target) -> None:
    for exercise in found.only:
        if found.lesson and lesson_with(exercise) != found.lesson:
            raise TargetError(
                f"{exercise} is an exercise of {lesson_with(exercise)}, not of {found.lesson}."
            )


def _saved(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # the file was deleted, or an editor is replacing it
        return 0
