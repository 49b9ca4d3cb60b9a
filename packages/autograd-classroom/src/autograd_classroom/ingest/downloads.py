"""Read downloads from course sites: zip files and file names.

A course site writes the first part of a name, and the student's own file name follows it.
"""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path

from autograd_classroom.ingest.files import LIMITS, directory_size
from autograd_classroom.ingest.gradescope import EXPORT
from autograd_course.index import LESSONS

_MOODLE = re.compile(r"(?P<student>.+?)_assignsubmission_(?:file|onlinetext).*")
_BLACKBOARD = re.compile(
    r".+?_(?P<student>[^_]+)_attempt_(?P<time>\d{4}-\d\d-\d\d(?:-\d\d){0,3}).*"
)
_CANVAS = re.compile(  # the user's number, then the file's; together with more, they are no date
    r"(?P<student>[^_]+)(?:_LATE)?_(?!20\d\d_\d\d_\d\d(?!\d))(?P<number>\d+)_\d+_.*"
)
_ANONYMOUS = re.compile(r"(?P<student>anon_[0-9A-Za-z]+)_\d+_.*")  # from Canvas
_GRADESCOPE = re.compile(r"(?P<student>submission_\d+)")


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
    return next((name for name in folders if not is_of_many(name)), file)


def is_of_many(name: str) -> bool:
    """Return whether a folder with this name contains the work of many students."""
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
