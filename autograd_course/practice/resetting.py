"""Restore the original exercise files, and keep the learner's versions under new names.

This module builds the original notebook from its solution, without saved outputs. In a clone of the
course, Git also contains the notebook with outputs. If the two notebooks differ only in outputs,
this module restores the version from Git.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograd_course.errors import CourseError
from autograd_course.lab.folder import GET
from autograd_course.practice.targets import FOLDER

if TYPE_CHECKING:
    from nbformat import NotebookNode


def same_inputs(notebook: NotebookNode, other: NotebookNode) -> bool:
    """Return whether two notebooks are equal except for outputs and execution counts."""
    return _inputs(notebook) == _inputs(other)


def _inputs(notebook: NotebookNode) -> NotebookNode:
    inputs = copy.deepcopy(notebook)
    for cell in inputs.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return inputs


_SOLUTIONS = "solutions"


class NotShippedError(CourseError, RuntimeError):
    """Raised if this installation cannot build the notebook. The message says what to do."""


@dataclass(frozen=True)
class Shipped:
    """The original contents of both files of an exercise notebook, as bytes."""

    script: bytes
    notebook: bytes


def shipped(root: Path, lesson: str) -> Shipped:
    """Return the original contents of both files. Raises :class:`NotShippedError`."""
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

    from autograd_course.practice.resetting import same_inputs

    committed = _committed(root, f"{FOLDER}/{lesson}.ipynb")
    try:
        if committed and same_inputs(nbformat.reads(committed.decode(), as_version=4), made):
            return committed
    except (ValueError, nbformat.ValidationError):
        pass
    return (str(nbformat.writes(made)).rstrip("\n") + "\n").encode()


def _committed(root: Path, place: str) -> bytes:
    """Return the contents of a file from Git, or empty bytes if Git or the file is missing."""
    if shutil.which("git") is None:
        return b""
    command = ["git", "-C", str(root), "show", f"HEAD:./{place}"]
    shown = subprocess.run(command, capture_output=True)
    return shown.stdout if shown.returncode == 0 else b""


KEPT = ".before-reset-"  # part of the file name under which a reset saves the learner's version
_CELL = re.compile(r"(?m)^# ?%%.*$")


@dataclass(frozen=True)
class Change:
    """A restored file, and the file name of the copy of the learner's version, if there is one."""

    path: Path
    kept: Path | None


def put_back(files: tuple[Path, ...], new: Shipped, only: tuple[str, ...]) -> Iterator[Change]:
    """Restore each file that differs from the original, and keep a copy of the learner's version.

    With ``only``, replace only the answer cells of these exercises. The function computes all new
    contents before it writes the first file. Raises NotShippedError or OSError.
    """
    wanted = {path: _content(path, new, only) for path in files}
    for path, content in wanted.items():
        old = path.read_bytes() if path.exists() else None
        if old != content:
            kept = None if old is None else _kept(path, old)
            _replace(path, content)
            yield Change(path, kept)


def _content(path: Path, new: Shipped, only: tuple[str, ...]) -> bytes:
    """Return the new content of a file. Keep a notebook that has been run but not edited."""
    is_script = path.suffix == ".py"
    whole = new.script if is_script else new.notebook
    if not path.exists():
        return whole
    old = path.read_bytes()
    if not only:
        return old if not is_script and _same_cells(old, whole) else whole
    swap = _in_script if is_script else _in_notebook
    try:
        return swap(old.decode(), whole.decode(), only).encode()
    except (KeyError, TypeError, ValueError) as error:
        lacks = f"has no cell {error}" if isinstance(error, KeyError) else "cannot be read"
        raise NotShippedError(
            f"{path.name} {lacks}. Reset the whole notebook, without --exercise."
        ) from None


def _in_script(text: str, whole: str, only: tuple[str, ...]) -> str:
    for exercise in only:
        begin, end = _span(text, exercise)
        text = text[:begin] + whole[slice(*_span(whole, exercise))] + text[end:]
    return text


def _span(text: str, exercise: str) -> tuple[int, int]:
    """Return the start and end of an exercise's answer cell in a script."""
    marks = [*_CELL.finditer(text)]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=True):
        if f'"grade_id": "{exercise}"' in mark[0]:
            return mark.start(), end
    raise KeyError(exercise)


def _same_cells(old: bytes, new: bytes) -> bool:
    import nbformat

    from autograd_course.practice.resetting import same_inputs

    try:
        return same_inputs(*(nbformat.reads(each.decode(), as_version=4) for each in (old, new)))
    except (ValueError, AttributeError, nbformat.ValidationError):
        return False  # not a notebook, so it is kept like any other file


def _in_notebook(text: str, whole: str, only: tuple[str, ...]) -> str:
    import nbformat

    mine, theirs = (nbformat.reads(each, as_version=4) for each in (text, whole))
    for exercise in only:
        answer, given = _cell(mine, exercise), _cell(theirs, exercise)
        if answer.source != given.source:
            answer.source = given.source
            for cell in (answer, _cell(mine, f"{exercise}-grade")):  # also clear its outputs
                cell.outputs, cell.execution_count = [], None
    return str(nbformat.writes(mine)).rstrip("\n") + "\n"


def _cell(notebook: Any, grade_id: str) -> Any:
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id:
            return cell
    raise KeyError(grade_id)


def _kept(path: Path, content: bytes) -> Path:
    """Write a copy under an unused name, and flush it to disk before returning."""
    for number in range(1, 10_000):
        name = f"{path.stem}{KEPT}{date.today()}-{number}{path.suffix}"
        try:
            with path.with_name(name).open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            continue
        return path.with_name(name)
    raise NotShippedError(
        f"{path.name} has been reset 10,000 times today. Delete some of the saved copies."
    )


def _replace(path: Path, content: bytes) -> None:
    path = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
