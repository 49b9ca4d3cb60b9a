"""The parts of our packages in the sandbox: the worker, and the modules for learners' code.

No other part of the classroom or the course can be imported or read. This excludes the exercises
with their references, samples, checks and hints, the reference Functions, the grader and the
quizzes. The sandbox shows only these files (``sandbox.mounts``). Without a sandbox, the worker
imports only them.
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
    """Whether the sandbox has a module of our packages.

    Libraries and the doctor are always available.
    """
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
    """An import finder that finds only those modules of our packages that belong in the sandbox."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Return how to import a folder that is only partly inside; see :mod:`importlib`."""
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
    """Stop finding any modules of our packages that are not in the sandbox."""
    sys.meta_path.insert(0, Inside)
