"""Read the metadata in Gradescope's export: who handed in each submission, and when."""

from __future__ import annotations

import functools
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXPORT = re.compile(r"assignment_\d+_export")  # the folder, which contains all submissions
_METADATA = "submission_metadata.yml"
_FOLDER = re.compile(r"(submission_\d+):")
_FIELD = re.compile(r"(?:  - |    ):(name|sid): *(.*)")
_TIME = "  :created_at: "


@dataclass
class Exported:
    """The people who handed in one submission, and the time as Gradescope has written it."""

    people: list[dict[str, str]] = field(default_factory=list)
    time: str = ""

    def student(self, folder: str) -> str:
        """Return the names and numbers of the people, such as ``Ann B_123``."""
        return " and ".join(_called(person, folder) for person in self.people)


def exported_in(folder: Path) -> Mapping[str, Exported]:
    """Map each submission's folder in an export to its metadata."""
    path = folder / _METADATA
    try:
        about = path.stat()
        return _parsed(path, about.st_mtime_ns, about.st_size) if path.is_file() else {}
    except OSError:
        return {}


@functools.lru_cache(maxsize=8)
def _parsed(path: Path, *version: int) -> Mapping[str, Exported]:
    """Read the metadata file line by line.

    It contains all results, and a YAML parser would take a second per megabyte.
    """
    found: defaultdict[str, Exported] = defaultdict(Exported)
    here, submitters = "", False
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := _FOLDER.fullmatch(line):
            here = match[1]
        elif line.startswith("  :"):
            submitters = line == "  :submitters:"
            if line.startswith(_TIME):
                found[here].time = _plain(line.removeprefix(_TIME))
        elif submitters and (match := _FIELD.fullmatch(line)):
            if line.startswith("  -"):
                found[here].people.append({})
            found[here].people[-1][match[1]] = _plain(match[2])
    return dict(found)


def _called(person: dict[str, str], folder: str) -> str:
    number = person.get("sid") or folder.removeprefix("submission_")
    return f"{person.get('name', '')}_{number}".lstrip("_").replace("/", " ")


def _plain(value: str) -> str:
    """Return a YAML string without its quotes."""
    if value[:1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value.strip('"')
    return value[1:-1].replace("''", "'") if value[:1] == "'" else value
