"""Read downloads from course sites: zip files, file names and Gradescope's metadata.

A course site writes the first part of a name, and the student's own file name follows it.
"""

from __future__ import annotations

import json
import re
import stat
import zipfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from autograd_classroom.ingest.files import LIMITS, directory_size
from autograd_course.index import LESSONS

EXPORT = re.compile(r"assignment_\d+_export")  # Gradescope's folder, which contains all submissions
_PEOPLE = "submission_metadata.yml"  # names the student of each submission folder
_MOODLE = re.compile(r"(?P<student>.+?)_assignsubmission_(?:file|onlinetext).*")
_BLACKBOARD = re.compile(
    r".+?_(?P<student>[^_]+)_attempt_(?P<time>\d{4}-\d\d-\d\d(?:-\d\d){0,3}).*"
)
_CANVAS = re.compile(  # the user's number, then the file's; together with more, they are no date
    r"(?P<student>[^_]+)(?:_LATE)?_(?!20\d\d_\d\d_\d\d(?!\d))(?P<number>\d+)_\d+_.*"
)
_ANONYMOUS = re.compile(r"(?P<student>anon_[0-9A-Za-z]+)_\d+_.*")  # from Canvas
_GRADESCOPE = re.compile(r"(?P<student>submission_\d+)")
_FOLDER = re.compile(r"(submission_\d+):")
_FIELD = re.compile(r"(?:  - |    ):(name|sid): *(.*)")


def students_in(path: Path) -> int:
    """Count the students in a zip file by the file names that course sites generate."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return 0
        with path.open("rb") as file:
            if directory_size(file) > LIMITS.directory:
                return 0
            tops = {top(name) for name in zipfile.ZipFile(file).namelist()}
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return 0  # the code that reads the file will report the error
    return len({site["student"] for site in map(by_site, tops) if site})


def is_download(name: str) -> bool:
    """Return whether a file or folder name has the form of a course site's download."""
    return by_site(name) is not None


def top(path: str) -> str:
    """Return the first name in a path that is not a folder for many students."""
    *folders, file = path.split("/")
    return next((name for name in folders if not _is_of_many(name)), file)


def _is_of_many(name: str) -> bool:
    return name == "submitted" or name.lower() in LESSONS or EXPORT.fullmatch(name) is not None


def by_site(name: str) -> re.Match[str] | None:
    """Match a file or folder name that a course site wrote. The group ``student`` is its student.

    The student's own file name may look like a name from another site. Therefore, the site whose
    pattern finds the student earliest in the name counts.
    """
    if anonymous := _ANONYMOUS.fullmatch(name):
        return anonymous
    found = (site.fullmatch(name) for site in (_MOODLE, _CANVAS, _BLACKBOARD, _GRADESCOPE))
    return min(filter(None, found), key=lambda match: match.end("student"), default=None)


def handed_in(source: str, modified: float) -> str:
    """Return the submission time in ISO format.

    Take the time from the part of a name that Blackboard wrote if possible, otherwise use the
    file's modification time. A time in a file name has no time zone, so assume this machine's time
    zone.
    """
    site = by_site(top(source))
    if named := site and site.groupdict().get("time"):
        try:
            return datetime.strptime(named, "%Y-%m-%d-%H-%M-%S").astimezone(UTC).isoformat()
        except ValueError:
            pass  # not a valid time
    return datetime.fromtimestamp(modified, UTC).isoformat(timespec="seconds") if modified else ""


def names_beside(folder: Path) -> dict[str, str]:
    """Map each Gradescope folder to its student's name and number, such as ``Ann B_123``.

    Read the metadata file line by line. It contains all results, and a YAML parser would take a
    second per megabyte.
    """
    try:
        lines = (folder / _PEOPLE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    people: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    here, submitters = "", False
    for line in lines:
        if match := _FOLDER.fullmatch(line):
            here = match[1]
        elif line.startswith("  :"):
            submitters = line == "  :submitters:"
        elif submitters and (match := _FIELD.fullmatch(line)):
            if line.startswith("  -"):
                people[here].append({})
            people[here][-1][match[1]] = _plain(match[2])
    return {folder: " and ".join(_called(p, folder) for p in who) for folder, who in people.items()}


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
