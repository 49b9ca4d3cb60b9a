"""The parts of our packages in the sandbox, which are the worker and modules for learners' code.

The sandbox contains no other part of the classroom or the course. In particular, it does not
contain the exercises (with their references, samples, checks and hints), the reference Functions,
the grader or the quizzes. ``sandbox.mounts`` lists the files that are visible in the sandbox. Even
if the worker runs without a sandbox, it cannot import any other part.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

# The worker, which runs the cells and answers the judge's questions.
_WORKER = (
    "__init__.py",
    "protocol",
    "sandbox/fork_server",
    "sandbox/limits.py",
    "worker",
)
# The course modules that the worker uses.
_USED = (
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
# The files and folders of each package.
PARTS = {"autograd_classroom": _WORKER, "autograd_course": (*_USED, *_GIVEN)}


def has(module: str) -> bool:
    """Return whether the sandbox contains a module. It contains all libraries and the doctor."""
    top, _, rest = module.partition(".")
    place = rest.replace(".", "/")
    parts = PARTS.get(top)
    if parts is None:
        return True
    files = {part.removesuffix(".py").removesuffix("__init__").strip("/") for part in parts}
    return place in files or place.startswith(
        tuple(f"{part}/" for part in parts if "." not in part)
    )


class Inside:
    """An import finder that blocks the modules of our packages that are not in the sandbox."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Return a spec for a package that is only partly in the sandbox.

        For a module that is completely in the sandbox, return ``None``, so that the next finder
        imports it.

        Raises ModuleNotFoundError if the module is not in the sandbox.
        """
        if has(name):
            return None  # leave the module to the next finder
        top, _, rest = name.partition(".")
        place = rest.replace(".", "/")
        if path is None or not any(part.startswith(f"{place}/") for part in PARTS[top]):
            raise ModuleNotFoundError(f"{name} is not in the sandbox", name=name)
        found = ModuleSpec(name, None, is_package=True)
        found.submodule_search_locations = [str(Path(p, Path(place).name)) for p in path]
        return found


def only_inside() -> None:
    """Block the import of all modules in our packages that are not in the sandbox."""
    sys.meta_path.insert(0, Inside)
