"""Create nbgrader's course folder.

The folder contains our solved notebooks in ``source/`` and a configuration file. Each cell that
grades an exercise gets a hidden test, which nbgrader removes from the released notebook. The hidden
test grades the same answer with different inputs. nbgrader shows hidden tests in its feedback, so a
hidden test must not contain a seed.
"""

from __future__ import annotations

import copy
import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autograd_classroom.adapters.nbgrader.autograding import safety_net

from autograd_course.errors import CourseError
from autograd_course.index import INDEX, Entry

SOLUTIONS = "solutions"
CONFIG = "nbgrader_config.py"
_TEMPLATE = Path(__file__).with_name("nbgrader_config.txt")
_OURS = "autograd_classroom.adapters.nbgrader"  # generated configuration files import this package
_HIDDEN = """\
{visible}
### BEGIN HIDDEN TESTS
from autograd_classroom.adapters.nbgrader.hidden import points

points("{exercise}", {name})
### END HIDDEN TESTS"""


class CourseFolderError(CourseError):
    """Raised when the folder cannot be created.

    The message is a single sentence that explains what to do.
    """


def make_course(folder: Path, course: Path, exercises: Iterable[Entry]) -> tuple[Path, ...]:
    """Create nbgrader's folder for the course at ``course``. Return the paths of its notebooks.

    Each lesson is an assignment, worth the total points for its requested exercises. If an earlier
    call created the folder, this call adds lessons but changes nothing else. Raises
    CourseFolderError, if possible before writing anything.
    """
    wanted = {exercise.id: exercise for exercise in exercises}
    lessons = sorted({exercise.lesson for exercise in wanted.values()})
    solved = {lesson: _solved(course, lesson) for lesson in lessons}
    made = tuple(folder / "source" / lesson / f"{lesson}.ipynb" for lesson in lessons)
    try:
        _refuse_others(folder, made)
        for path, lesson in zip(made, lessons, strict=True):
            path.parent.mkdir(parents=True)
            notebook = as_source(solved[lesson], wanted)
            path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1), encoding="utf-8")
        _configure(folder)
    except OSError as error:
        raise CourseFolderError(f"{folder} cannot be written ({error.strerror}).") from None
    return made


def _refuse_others(folder: Path, made: Iterable[Path]) -> None:
    """Raise CourseFolderError if the folder is not ours or already contains one of the lessons."""
    if folder.is_file():
        raise CourseFolderError(f"{folder} is a file: name a new folder.")
    if folder.exists() and any(folder.iterdir()):
        config = folder / CONFIG
        if not (config.is_file() and _OURS in config.read_text("utf-8", errors="replace")):
            raise CourseFolderError(
                f"{folder} is not empty, and has no {CONFIG} of this command: name a new folder."
            )
    there = [path.parent for path in made if path.parent.exists()]
    if there:
        raise CourseFolderError(
            f"{there[0]} exists already: delete it to create this lesson again, or name only new "
            "lessons with --exercises."
        )


def _configure(folder: Path) -> None:
    """Write the configuration files, unless they already exist.

    The seed in the configuration determines the inputs for all lessons.
    """
    if (folder / CONFIG).exists():
        return
    config = _TEMPLATE.read_text(encoding="utf-8").replace("SEED", secrets.token_hex(16))
    (folder / CONFIG).write_text(config, encoding="utf-8")
    net = json.dumps(safety_net(), indent=1)
    (folder / "nbgrader_config.json").write_text(net, encoding="utf-8")


def as_source(notebook: Mapping[str, Any], wanted: Iterable[str]) -> Mapping[str, Any]:
    """Convert a solved notebook to the format of nbgrader's ``source/``, and remove its outputs."""
    source = copy.deepcopy(dict(notebook))
    kept = [cell for cell in source["cells"] if "solution-only" not in _tags(cell)]
    source["cells"] = [_cell(cell, set(wanted)) for cell in kept]
    return source


def _cell(cell: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    if cell["cell_type"] == "code":
        cell |= {"outputs": [], "execution_count": None}
    nbgrader = cell["metadata"].get("nbgrader", {})
    if nbgrader.get("grade"):
        exercise = nbgrader["grade_id"].removesuffix("-grade")
        if exercise in wanted:
            name, visible = INDEX[exercise].answer, "".join(cell["source"])
            cell["source"] = _HIDDEN.format(visible=visible, exercise=exercise, name=name)
        else:
            del cell["metadata"]["nbgrader"]
    return cell


def _tags(cell: Mapping[str, Any]) -> list[str]:
    tags: list[str] = cell["metadata"].get("tags", [])
    return tags


def _solved(course: Path, lesson: str) -> Mapping[str, Any]:
    path = course / SOLUTIONS / f"{lesson}.ipynb"
    try:
        notebook: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise CourseFolderError(
            f"there is no {path}: name your copy of the course with --course."
        ) from None
    return notebook
