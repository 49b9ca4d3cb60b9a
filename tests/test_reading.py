"""What an exercise says to reread is really there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograd_course.grader import CATALOGUE, Exercise

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@pytest.mark.parametrize("exercise", CATALOGUE.values(), ids=list(CATALOGUE))
def test_the_section_to_reread_is_a_heading_of_the_lesson(exercise: Exercise) -> None:
    place = re.fullmatch(r'lesson (?P<number>\d\d), "(?P<heading>.+)"', exercise.read)
    assert place, f'{exercise.read!r} is not of the form: lesson 01, "A heading"'
    (lesson,) = NOTEBOOKS.glob(f"{place['number']}_*.py")
    headings = re.findall(r"^# #{2,3} (.+)$", lesson.read_text(encoding="utf-8"), re.MULTILINE)
    assert place["heading"] in headings
