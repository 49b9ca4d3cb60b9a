"""The page that ``make lab`` opens next to the first lesson."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from repository import ROOT

from autograd_course.index import INDEX, LESSONS, exercises_of
from autograd_course.learner.overview import overview
from autograd_course.learner.state import State

NOTHING = State()


def passing(*ids: str) -> State:
    """Return the state of a learner who has passed the given exercises."""
    state = State()
    for each in ids:
        state = state.graded(each, "passed", "")
    return state


def row(page: str, lesson: str) -> str:
    (found,) = (line for line in page.splitlines() if f"(notebooks/{lesson}.ipynb)" in line)
    return found


def test_every_link_leads_to_a_file_of_the_course() -> None:
    links = re.findall(r"\]\(([^)]+)\)", overview(NOTHING))

    assert len(links) > 2 * len(LESSONS)
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_lesson_is_listed_in_order_with_its_exercises() -> None:
    numbers = re.findall(r"^\| (\d\d) \|", overview(NOTHING), re.MULTILINE)

    assert numbers == sorted(path.name[:2] for path in (ROOT / "notebooks").glob("*.ipynb"))
    for lesson in LESSONS:
        assert f"[0 of {len(exercises_of(lesson))}]" in row(overview(NOTHING), lesson)


def test_what_is_passed_is_counted_and_the_next_exercise_named() -> None:
    page = overview(passing("square"))

    assert f"You have passed 1 of {len(INDEX)} exercises." in page
    assert "Next exercise: [Square]" in overview(NOTHING)
    assert "Next exercise: [Square]" not in page
    assert "[1 of 13]" in row(page, "01_template")


def test_a_complete_lesson_and_a_complete_course_are_marked() -> None:
    lesson = "10_sampling"
    complete = overview(passing(*(each.id for each in exercises_of(lesson))))

    assert "[✓ 3 of 3]" in row(complete, lesson)
    assert "✓" not in row(complete, "01_template")
    assert "The course is complete." in overview(passing(*INDEX))


@pytest.mark.slow
def test_the_page_does_not_wait_for_pytorch() -> None:
    code = (
        "import sys\n"
        "from autograd_course.learner.overview import overview\n"
        "from autograd_course.learner.store import load\n"
        "overview(load().state)\n"
        "print('torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout == "False\n"
