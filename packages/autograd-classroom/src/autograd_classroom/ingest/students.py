"""Determine from a file's folder and name which student it belongs to.

======================================  =================================================
a path under the submissions folder     the student
======================================  =================================================
``ann/01_template.ipynb``, ``ann.zip``  ann (nbgrader: ``ann/01_template/….ipynb``)
``ann_01_template.ipynb``               ann (also ``01_template_ann``, ``ann-01``)
``ann_123_01_template.ipynb``           ann_123 (Canvas: name, number, file; ``LATE`` dropped)
``Ann B_123_assignsubmission_file/…``   Ann B_123 (Moodle)
``hw_ann_attempt_2026-…_x.ipynb``       ann (Blackboard)
``assignment_7_export/submission_9/…``  Ann B_123 (Gradescope; ``gradescope.exported_in``)
``01-template-ann/…``                   ann (GitHub Classroom's repositories)
``01_template/ann.ipynb``               ann (a folder for each lesson)
``01_template.ipynb`` alone             the name of the submissions folder
======================================  =================================================

An instructor or a course site names a folder, and the name may end like a copy or a lesson:
``01-template-ann-2`` and ``01-template-ann-05`` belong to other people than ``01-template-ann``. A
browser adds such an ending to the name of a second file.
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
_ANY_LESSON = rf"(?:{_LESSONS}|(?:lesson|hw|ex|exercises?)?[-_ ]?(?:{_NUMBERS}))"
_LESSON = re.compile(rf"(?:^|(?<=[-_ ])){_ANY_LESSON}(?=$|[-_ .])", re.IGNORECASE)
_FOLDER = re.compile(  # the lesson comes first or, with its whole name, last
    rf"(?!(?:{_LESSONS})$)(?:({_ANY_LESSON})[-_ .]+(.+)|(.+?)[-_ .]+({_LESSONS}))", re.IGNORECASE
)


def student_of(path: PurePosixPath, root: str, *, is_folder: bool = False) -> str:
    """Return the student to whom a path belongs. If the path names no student, return ``root``."""
    name = top(path.as_posix())
    stem = name if is_folder else PurePosixPath(name).stem
    named = _of_site(stem) or (_of_folder(stem) if is_folder else _of_file(stem))
    return unicodedata.normalize("NFC", named) or root


def _of_site(name: str) -> str:
    """Return the student in a name that a course site wrote, or an empty string."""
    site = by_site(name)
    if not site:
        return ""
    number = site.groupdict().get("number")
    return f"{site['student']}_{number}" if number else site["student"]


def _of_folder(name: str) -> str:
    lesson = _FOLDER.fullmatch(name)
    return lesson[2] or lesson[3] if lesson else name


def lesson_in(folder: str) -> str:
    """Return the number of the lesson in the name of a folder, or an empty string."""
    lesson = _FOLDER.fullmatch(folder)
    return "".join(re.findall(r"\d", lesson[1] or lesson[4])[:2]) if lesson else ""


def _of_file(name: str) -> str:
    bare = _COPY.sub("", name)
    if said := _NUMBERED.fullmatch(bare):
        return f"{said['name']}_{said['number']}"
    without = _LESSON.sub("", bare)
    return bare if without == bare else without.strip("-_ .")
