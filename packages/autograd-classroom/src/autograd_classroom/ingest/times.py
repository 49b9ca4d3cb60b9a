"""Find out when a file was handed in.

A course site may write the time into a file's name (Blackboard), into a file next to the submission
(nbgrader) or into the metadata of its export (Gradescope). Otherwise, the file's date counts.
Students cannot choose any of these times, but they can choose the dates inside a zip.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from autograd_classroom.ingest.downloads import by_site, top
from autograd_classroom.ingest.gradescope import exported_in

_NBGRADER = "timestamp.txt"  # in the folder of each assignment, which is in the student's folder
_TIME = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(\.\d+)? ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)"
)


def recorded(submission: Path, within: str) -> float:
    """Return the time that Gradescope or nbgrader has recorded, in seconds, or 0 if there is none.

    ``submission`` is the folder of a student, and ``within`` the path of a file in this folder.
    """
    if submission.parent.name == "submitted":
        told = _first_line(submission / within.partition("/")[0] / _NBGRADER)
    else:
        exported = exported_in(submission.parent).get(submission.name)
        told = exported.time if exported else ""
    return _seconds(told)


def handed_in(source: str, arrived: float) -> str:
    """Return the submission time in ISO format, or ``""`` if it is unknown.

    Take the time from the part of a name that Blackboard wrote if possible, otherwise use the time
    at which the file arrived. A time in a file name has no time zone, so assume this machine's time
    zone.
    """
    site = by_site(top(source))
    if named := site and site.groupdict().get("time"):
        try:
            return datetime.strptime(named, "%Y-%m-%d-%H-%M-%S").astimezone(UTC).isoformat()
        except ValueError:
            pass  # not a valid time
    return datetime.fromtimestamp(arrived, UTC).isoformat(timespec="seconds") if arrived else ""


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(100)
    except OSError:
        return ""


def _seconds(text: str) -> float:
    """Return the time that a site has written, in seconds, or 0 if it is not valid."""
    found = _TIME.match(text)
    if not found:
        return 0.0
    zone = "+00:00" if found["zone"] in ("Z", "UTC") else found["zone"]
    try:
        return datetime.fromisoformat(f"{found['day']}T{found['time']}{zone}").timestamp()
    except ValueError:
        return 0.0
