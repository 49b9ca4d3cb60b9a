"""An exercise notebook as it was shipped: made from its solution, or from Git if that is the same.

The one that is made has no saved outputs, because these come from executing it. A cloned copy of
the course has them in Git, and gives back the very bytes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from autograd_course.errors import CourseError
from autograd_course.lab.folder import GET
from autograd_course.practice.targets import FOLDER

if TYPE_CHECKING:
    from nbformat import NotebookNode

_SOLUTIONS = "solutions"


class NotShippedError(CourseError, RuntimeError):
    """The notebook cannot be made here; the message is one sentence that says what to do."""


@dataclass(frozen=True)
class Shipped:
    """The bytes of both files of an exercise notebook."""

    script: bytes
    notebook: bytes


def shipped(root: Path, lesson: str) -> Shipped:
    """Return both files as shipped. Raises :class:`NotShippedError`."""
    _require(root, lesson)
    import nbformat

    built = _built(root, lesson)
    if built.returncode:
        reason = built.stderr.strip().rpartition("\n")[2].rstrip(".")
        raise NotShippedError(f"cannot build the notebook from its solution: {reason}.")
    files = json.loads(built.stdout)
    notebook = nbformat.reads(files["notebook"], as_version=4)
    return Shipped(files["script"].encode(), _with_outputs(root, lesson, notebook))


def _built(root: Path, lesson: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools", "exercise", lesson],
        cwd=root, capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip


def _require(root: Path, lesson: str) -> None:
    for needed in (f"{_SOLUTIONS}/{lesson}.py", "tools/__main__.py"):
        if not (root / needed).is_file():
            raise NotShippedError(
                f"reset builds the notebook from {_SOLUTIONS}/{lesson}.py, and {root} does not "
                f"contain {needed}. Get a complete copy of the course with {GET}"
            )
    lacking = [name for name in ("jupytext", "nbformat", "ruff") if find_spec(name) is None]
    if lacking:
        names = " ".join(lacking)
        raise NotShippedError(f"reset needs packages that are not installed: pip install {names}")


def _with_outputs(root: Path, lesson: str, made: NotebookNode) -> bytes:
    import nbformat

    from autograd_course.practice.notebooks import same_inputs

    committed = _committed(root, f"{FOLDER}/{lesson}.ipynb")
    try:
        if committed and same_inputs(nbformat.reads(committed.decode(), as_version=4), made):
            return committed
    except (ValueError, nbformat.ValidationError):
        pass
    return (str(nbformat.writes(made)).rstrip("\n") + "\n").encode()


def _committed(root: Path, place: str) -> bytes:
    """Return a file as Git has it, nothing where there is no Git, or no such file in it."""
    if shutil.which("git") is None:
        return b""
    command = ["git", "-C", str(root), "show", f"HEAD:./{place}"]
    shown = subprocess.run(command, capture_output=True)
    return shown.stdout if shown.returncode == 0 else b""
