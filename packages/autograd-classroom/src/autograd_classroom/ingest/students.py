"""Determine from a file's folder and name which student it belongs to.

======================================  =================================================
a path under the submissions folder     the student
======================================  =================================================
``ann/01_template.ipynb``, ``ann.zip``  ann (nbgrader: ``ann/01_template/….ipynb``)
``ann_01_template.ipynb``               ann (also ``01_template_ann``, ``ann-01``)
``ann_123_01_template.ipynb``           ann_123 (Canvas: name, number, file; ``LATE`` dropped)
``Ann B_123_assignsubmission_file/…``   Ann B_123 (Moodle)
``hw_ann_attempt_2026-…_x.ipynb``       ann (Blackboard)
``assignment_7_export/submission_9/…``  Ann B_123 (Gradescope; ``downloads.names_beside``)
``01-template-ann/…``                   ann (GitHub Classroom's repositories)
``01_template/ann.ipynb``               ann (a folder for each lesson)
``01_template.ipynb`` alone             the name of the submissions folder
======================================  =================================================
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath

from autograd_classroom.ingest.downloads import by_site, top
from autograd_course.index import LESSONS

# The student's name and number, as in Canvas's names, but the file's number may be missing.
_NUMBERED = re.compile(r"(?P<name>.+?)(?:_LATE)?_(?P<number>\d{3,})(?:_\d+)?(?:_(?!\d+$).*)?")
_COPY = re.compile(r"(?: ?\(\d+\)|-Copy\d+|-\d)$")
_LESSONS = "|".join(
    sorted({re.escape(stem).replace("_", "[-_ ]") for stem in LESSONS}, key=len, reverse=True)
)
_NUMBERS = "|".join(stem[:2] for stem in LESSONS)
_LESSON = re.compile(
    rf"(?:^|(?<=[-_ ]))(?:{_LESSONS}|(?:lesson|hw|ex|exercises?)?[-_ ]?(?:{_NUMBERS}))(?=$|[-_ .])",
    re.IGNORECASE,
)


def student_of(path: PurePosixPath, root: str) -> str:
    """Return the student to whom a path belongs. If the path names no student, return ``root``."""
    name = top(path.as_posix())
    stem = PurePosixPath(name).stem if name == path.name else name
    return unicodedata.normalize("NFC", _named(stem)) or root


def _named(name: str) -> str:
    if site := by_site(name):
        number = site.groupdict().get("number")
        return f"{site['student']}_{number}" if number else site["student"]
    bare = _COPY.sub("", name)
    if said := _NUMBERED.fullmatch(bare):
        return f"{said['name']}_{said['number']}"
    without = _LESSON.sub("", bare)
    return bare if without == bare else without.strip("-_ .")
