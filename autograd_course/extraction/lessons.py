"""Find a notebook's lesson from its ids, its definitions or, as a last resort, its file name."""

from __future__ import annotations

import re
from collections import Counter

from autograd_course.extraction.program import Program, program
from autograd_course.index import INDEX, LESSONS, shares_its_answer
from autograd_course.notebook_files import Notebook


def lesson_of(notebook: Notebook, source: str) -> str:
    """Return the lesson's stem, such as ``01_template``, or an empty string if it is unknown.

    The function tries the file name last, because students and course sites rename files.
    """
    read = program(notebook)
    named = _by_name(source)
    votes = _ids(read) or _defined(read)
    most = max(votes.values(), default=0)
    best = [lesson for lesson, count in votes.items() if count == most]
    return named if named in best or not best else best[0]


def _ids(read: Program) -> Counter[str]:
    ids = [block.exercise for block in read.blocks if block.exercise]
    return Counter(INDEX[exercise].lesson for exercise in ids)


def _defined(read: Program) -> Counter[str]:
    bound = frozenset().union(*(block.binds for block in read.blocks))
    known = [e for e in INDEX.values() if e.answer in bound and not shares_its_answer(e.id)]
    return Counter(exercise.lesson for exercise in known)


def _by_name(source: str) -> str:
    for lesson in LESSONS:
        if re.search(lesson.replace("_", "[-_ ]"), source, re.IGNORECASE):
            return lesson
    return ""
