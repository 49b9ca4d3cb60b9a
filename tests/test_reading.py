"""What an exercise says to reread is really there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograd_course.grader import CATALOGUE
from autograd_course.grader.result import SECTION, SECTION_LATER

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


EXERCISES = {exercise.id: exercise.read for exercise in CATALOGUE.values()}
LATER = {f"{rule}, later": read for rule, read in SECTION_LATER.items()}
PLACES = EXERCISES | SECTION | LATER


@pytest.mark.parametrize("read", PLACES.values(), ids=PLACES)
def test_the_section_to_reread_is_a_heading_of_the_lesson(read: str) -> None:
    place = re.fullmatch(r'lesson (?P<number>\d\d), "(?P<heading>.+)"', read)
    assert place, f'{read!r} is not of the form: lesson 01, "A heading"'
    (lesson,) = NOTEBOOKS.glob(f"{place['number']}_*.py")
    headings = re.findall(r"^# #{2,3} (.+)$", lesson.read_text(encoding="utf-8"), re.MULTILINE)
    assert place["heading"] in headings
