"""Build the zip file for Gradescope, with our packages and the scripts that install and run them.

Format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from autograd_classroom.folders import OURS

from autograd_course.errors import CourseError
from autograd_course.index import Entry

_COURSE, _CLASSROOM = "autograd-course", "autograd-classroom"
_OURS = (_CLASSROOM, _COURSE, "autograd-doctor")  # packages whose code is in the zip file
_SHIPS = "15_ship_it"
_HERE = Path(__file__).parent
_EXECUTABLE, _READABLE = 0o100755 << 16, 0o100644 << 16
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class AutograderError(CourseError):
    """Raised when the zip file cannot be written. The message is a single sentence."""


def write_zip(target: Path, exercises: Iterable[Entry]) -> None:
    """Write the zip file for grading these exercises. Raises AutograderError."""
    if target.suffix.lower() != ".zip":
        raise AutograderError(f"Gradescope takes only zip files: name {target}.zip instead.")
    wanted = tuple(exercises)
    asked = ",".join(exercise.id for exercise in wanted)
    ships = any(exercise.lesson == _SHIPS for exercise in wanted)
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in ("setup.sh", "run_autograder"):
                _add(archive, name, (_HERE / f"{name}.txt").read_bytes(), _EXECUTABLE)
            _add(archive, "exercises.txt", f"{asked}\n".encode())
            _add(archive, "requirements.txt", "".join(f"{p}\n" for p in pins(ships)).encode())
            for name, path in _sources():
                _add(archive, name, path.read_bytes())
    except OSError as error:
        raise AutograderError(f"{target} cannot be written ({error.strerror}).") from None


def pins(ships: bool = False) -> Iterator[str]:
    """Yield the requirements of our packages, pinned to the versions installed here.

    If ``ships`` is true, also yield the packages that lesson 15 needs to export models.
    """
    required = {*(metadata.requires(_COURSE) or ()), *(metadata.requires(_CLASSROOM) or ())}
    for requirement in sorted(required):
        name = _NAME.match(requirement)
        asked = "extra ==" not in requirement or (ships and 'extra == "ship"' in requirement)
        if name and asked and name[0] not in _OURS:
            public, _, _ = metadata.version(name[0]).partition("+")  # without torch's "+cpu"
            yield f"{name[0]}=={public}"


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int = _READABLE) -> None:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode  # fixed, because Gradescope may run the grader as a different user
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _sources() -> Iterator[tuple[str, Path]]:
    """Yield each file in our packages and its name in the zip file."""
    for package in OURS:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(package.parent).as_posix(), path
