"""What the sandbox has of the course: the worker, and what a learner's own code may use.

Nothing else of the course is there to be imported or to be read: no exercise with its reference,
samples, checks and hints, no reference Function, no grader, no quiz. The sandbox shows only these
files (``sandbox.places``). Without a sandbox, the worker imports only them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

_COURSE = "autograd_course"
# The worker: it runs the cells and answers the judge's questions.
_WORKER = (
    "classroom/__init__.py",
    "classroom/asking",
    "classroom/protocol",
    "classroom/sandbox/limits.py",
    "classroom/zygote",
    "calls.py",
    "engine.py",
    "errors.py",
    "execution.py",
    "shell/importing.py",
    "submitted.py",
)
# What answers use of the course.
_GIVEN = (
    "__init__.py",
    "digits.npz",
    "digits.py",
    "doctor.py",
    "external",
    "functions/attention/dropout.py",
    "functions/noise.py",
    "lesson.py",
    "measure.py",
    "ship.py",
    "showing.py",
)
PARTS = (*_WORKER, *_GIVEN)  # files and folders of the package
_FOLDERS = tuple(f"{part}/" for part in PARTS if "." not in part)
_FILES = {part.removesuffix(".py").removesuffix("__init__").strip("/") for part in PARTS}


def has(module: str) -> bool:
    """Whether the sandbox has a module. Libraries and the doctor are there."""
    top, _, rest = module.partition(".")
    place = rest.replace(".", "/")
    return top != _COURSE or place in _FILES or place.startswith(_FOLDERS)


class Inside:
    """Lets Python find only the modules of the course that are inside."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Return how to import a folder of which only a part is inside; see :mod:`importlib`."""
        if has(name):
            return None  # whoever is asked next finds it
        place = name.removeprefix(f"{_COURSE}.").replace(".", "/")
        if path is None or not any(part.startswith(f"{place}/") for part in PARTS):
            raise ModuleNotFoundError(f"{name} is not in the sandbox", name=name)
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(Path(p, Path(place).name)) for p in path]
        return found


def only_inside() -> None:
    """Find nothing else of the course from now on."""
    sys.meta_path.insert(0, Inside)
