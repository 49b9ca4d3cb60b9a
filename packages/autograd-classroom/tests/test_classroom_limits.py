"""The limits are the documented ones. They give a slow but honest answer enough time."""

from __future__ import annotations

import re

import pytest
from autograd_classroom.judge import judged
from autograd_classroom.sandbox import Limits
from autograd_classroom.sandbox.limits import MIB
from autograd_classroom.sandbox.running import Sandbox
from repository import ROOT
from submissions import IMPORTS, square
from walls import wall

from autograd_course.extraction import Answer
from autograd_course.grader import CATALOGUE
from autograd_course.grader.limits import DEFAULT_SECONDS

pytestmark = pytest.mark.slow

LIMITS = Limits()
HONEST = 7  # seconds
HOSTILE = 300  # number of answers that use all their time


def in_words(seconds: float) -> str:
    """Return a pattern that matches a time, such as 120 s, 120 seconds or 2 minutes."""
    minutes = {60: "a|one|1", 120: "two|2", 180: "three|3"}.get(int(seconds))
    return rf"\b{seconds:g}\W(s|seconds)\b" + (rf"|\b({minutes})\Wminutes?\b" if minutes else "")


DOCUMENTED = {
    "a question": in_words(LIMITS.question),
    "a question, on the clock": in_words(LIMITS.wall),
    "a question, in a notebook": in_words(DEFAULT_SECONDS),
    "all questions": in_words(LIMITS.whole),
    "computing": in_words(LIMITS.cpu),
    "memory": rf"\b{LIMITS.memory // MIB}\WMiB|\b{LIMITS.memory // MIB // 1024}\WGiB",
    "processes": rf"\b{LIMITS.processes}\Wprocesses",
    "files": rf"\b{LIMITS.disk // MIB}\WMiB",
}


@pytest.mark.parametrize("what", DOCUMENTED)
def test_the_page_for_instructors_says_what_an_answer_may_use(what: str) -> None:
    page = (ROOT / "docs" / "classroom.md").read_text(encoding="utf-8")

    assert re.search(DOCUMENTED[what], " ".join(page.split()), re.IGNORECASE)


def test_an_honest_answer_has_several_times_its_time_and_a_class_of_hostile_ones_ends() -> None:
    assert LIMITS.question > 2 * HONEST
    assert LIMITS.question < LIMITS.wall < LIMITS.whole
    assert LIMITS.cpu >= LIMITS.whole, "one process cannot compute for longer than it lives"
    assert HOSTILE * LIMITS.whole / 2 <= 5 * 3600, "in two processes, over night"


def test_only_an_exercise_that_takes_long_has_more_time() -> None:
    assert LIMITS.stretched(0.1) == LIMITS
    assert LIMITS.stretched(3).wall == 3 * LIMITS.wall
    assert LIMITS.stretched(3).memory == LIMITS.memory


@pytest.mark.thorough
def test_an_honest_answer_that_computes_for_seven_seconds_is_graded() -> None:
    once = f"""
import functools
import time
@functools.cache
def slowly():
    until = time.process_time() + {HONEST}
    while time.process_time() < until: pass
"""
    source = square("slowly()\nctx.save_for_backward(x)\nreturn x * x", before=once)
    with Sandbox(wall("bubblewrap")) as box:
        verdict = judged(CATALOGUE["square"], Answer("square", "ann", "Square", source, IMPORTS),
                         box, 7)  # fmt: skip

    assert verdict.status == "passed", verdict
