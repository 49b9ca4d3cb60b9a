"""The parts of the course in the sandbox: the worker, and the modules for learners' code.

No other part of the course can be imported or read. This excludes the exercises with their
references, samples, checks and hints, the reference Functions, the grader and the quizzes. The
sandbox shows only these files (``sandbox.places``). Without a sandbox, the worker imports only
them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

_COURSE = "autograd_course"
# The worker, which runs the cells and answers the judge's questions.
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
# The course modules that answers use.
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
    """Whether the sandbox has a course module. Libraries and the doctor are always available."""
    top, _, rest = module.partition(".")
    place = rest.replace(".", "/")
    return top != _COURSE or place in _FILES or place.startswith(_FOLDERS)


class Inside:
    """An import finder that finds only the course modules that belong in the sandbox."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Return how to import a folder that is only partly inside; see :mod:`importlib`."""
        if has(name):
            return None  # leave the module to the next finder
        place = name.removeprefix(f"{_COURSE}.").replace(".", "/")
        if path is None or not any(part.startswith(f"{place}/") for part in PARTS):
            raise ModuleNotFoundError(f"{name} is not in the sandbox", name=name)
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(Path(p, Path(place).name)) for p in path]
        return found


def only_inside() -> None:
    """Stop finding any course modules that are not in the sandbox."""
    sys.meta_path.insert(0, Inside)
