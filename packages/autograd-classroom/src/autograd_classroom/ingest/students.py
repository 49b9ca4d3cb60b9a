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

from autograd_classroom.ingest.downloads import BLACKBOARD, EXPORT, GRADESCOPE, MOODLE
from autograd_course.index import LESSONS

_CANVAS = re.compile(r"(?P<name>.+?)(?:_LATE)?_(?P<number>\d{3,})(?:_\d+)?(?:_(?!\d+$).*)?")
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
    parts = [p for p in path.parts if p != "submitted" and not EXPORT.fullmatch(p)]
    parts = parts or [path.name]  # the path may be a link with one of these names
    if len(parts) > 1 and _is_lesson(parts[0]):
        parts = parts[1:]
    name = parts[0] if len(parts) > 1 else PurePosixPath(parts[0]).stem
    return unicodedata.normalize("NFC", _named(name)) or root


def _is_lesson(name: str) -> bool:
    return _LESSON.fullmatch(name) is not None


def _named(name: str) -> str:
    for system in (MOODLE, BLACKBOARD, GRADESCOPE):
        if said := system.fullmatch(name):
            return said["student"]
    bare = _COPY.sub("", name)
    if said := _CANVAS.fullmatch(bare):
        return f"{said['name']}_{said['number']}"
    without = _LESSON.sub("", bare)
    return bare if without == bare else without.strip("-_ .")
