"""Build the URLs of lessons and of pages about rules."""

from __future__ import annotations

from autograd_doctor import RULES

from autograd_course.grader.exercise import Section
from autograd_course.index import LESSONS

# The address where the course is published. A test compares it with pyproject.toml.
REPOSITORY, BRANCH = "autograd-course/autograd_course", "main"
_FILES = f"https://github.com/{REPOSITORY}/blob/{BRANCH}"


def to_lesson(read: str) -> str:
    """Return the URL of the lesson that contains a section, or ``""`` for any other text."""
    number = f"{read.lesson:02}_" if isinstance(read, Section) else ""
    stems = [stem for stem in LESSONS if number and stem.startswith(number)]
    return f"{_FILES}/notebooks/{stems[0]}.ipynb" if stems else ""


def to_rule(rule: str) -> str:
    """Return the URL of a rule's page, or ``""`` if the rule has no page."""
    return f"{_FILES}/docs/rules.md#{rule}" if rule in RULES else ""
