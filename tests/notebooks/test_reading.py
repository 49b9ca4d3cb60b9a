"""Every section that an exercise tells you to reread exists."""

from __future__ import annotations

import re

import pytest
from repository import ROOT

from autograd_course.grader import CATALOGUE
from autograd_course.grader.sections import SECTIONS, section_to_read

NOTEBOOKS = ROOT / "notebooks"


EXERCISES = {exercise.id: exercise.read for exercise in CATALOGUE.values()}
RULES = {
    f"{rule}, {section.lesson}": str(section)
    for rule, sections in SECTIONS.items()
    for section in sections
}
PLACES = EXERCISES | RULES


@pytest.mark.parametrize("read", PLACES.values(), ids=PLACES)
def test_the_section_to_reread_is_a_heading_of_the_lesson(read: str) -> None:
    place = re.fullmatch(r'lesson (?P<number>\d\d), "(?P<heading>.+)"', read)
    assert place, f'{read!r} is not of the form: lesson 01, "A heading"'
    (lesson,) = NOTEBOOKS.glob(f"{place['number']}_*.py")
    headings = re.findall(r"^# #{2,3} (.+)$", lesson.read_text(encoding="utf-8"), re.MULTILINE)
    assert place["heading"] in headings


@pytest.mark.parametrize(
    ("exercise", "rule", "read"),
    [
        ("square", "tensor-on-ctx", 'lesson 01, "What goes where on ctx"'),
        ("gelu", "tensor-on-ctx", 'lesson 02, "What goes where, and what goes wrong otherwise"'),
        ("square", "mutates-saved", 'lesson 02, "What backward must not touch"'),
        ("square", "precision", CATALOGUE["square"].read),
        ("square", "", CATALOGUE["square"].read),
    ],
)
def test_the_section_is_the_one_that_the_learner_has_come_to(
    exercise: str, rule: str, read: str
) -> None:
    assert section_to_read(CATALOGUE[exercise], rule) == read
