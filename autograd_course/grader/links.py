"""Where on the web the course says more: a lesson, a rule's page."""

from __future__ import annotations

import re

from autograd_doctor import RULES

from autograd_course.index import LESSONS

# What pyproject.toml says of where the course is published; a test compares the two.
REPOSITORY, BRANCH = "autograd-course/autograd_course", "main"
_FILES = f"https://github.com/{REPOSITORY}/blob/{BRANCH}"
_LESSON = re.compile(r"lesson (\d\d)")


def to_lesson(read: str) -> str:
    """Return the address of the lesson that a text names, as in ``lesson 01, "…"``, or nothing."""
    named = _LESSON.search(read)
    stems = [stem for stem in LESSONS if named and stem.startswith(named[1])]
    return f"{_FILES}/notebooks/{stems[0]}.ipynb" if stems else ""


def to_rule(rule: str) -> str:
    """Return the address of a rule's page, or nothing."""
    return f"{_FILES}/docs/rules.md#{rule}" if rule in RULES else ""
