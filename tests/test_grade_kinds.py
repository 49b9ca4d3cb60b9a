"""Exercises that ask for something other than a Function: a routine, or the name of a bug."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from autograd_course.grader.exercise import NamingExercise, RoutineExercise
from autograd_course.grader.judge import judge
from autograd_course.grader.sampling import normal
from autograd_course.grader.verdict import Verdict, wrong

ABOUT: dict[str, Any] = {
    "lesson": "01_template",
    "points": 1,
    "hints": ("a", "b", "c"),
    "read": "",
}


def doubled(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x * times


def keeps_zero(routine: Callable[..., Any]) -> Verdict | None:
    if routine(torch.zeros(1)).item() == 0:
        return None
    return wrong("zero does not stay zero.")


DOUBLING = RoutineExercise(
    id="doubling",
    title="Doubling",
    reference=doubled,
    samplers={"a vector": lambda rng: (normal(rng, 3),), "times 3": lambda rng: (normal(rng), 3)},
    trials=(keeps_zero,),
    **ABOUT,
)


def unwritten(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    raise NotImplementedError


def looping(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    while True:
        time.sleep(0.01)


def changing(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return x.mul_(times)


ROUTINES = [
    (doubled, "passed", "its results agree with the reference's. Tried on: a vector; times 3."),
    (changing, "passed", "agree"),
    (unwritten, "not attempted", "the function is still to be written."),
    (None, "not attempted", "there is no answer yet"),
    (3, "wrong", "this is int, not a function"),
    (torch.autograd.Function, "wrong", "a plain function is asked for"),
    (lambda x: x, "wrong", "it does not take the arguments asked for: write (x, times=2)."),
    (lambda x, times=2: x, "wrong", "the result is wrong at 3 of 3 elements. At ["),
    (lambda x, times=2: None, "wrong", "the result is None; a tensor is asked for."),
    (lambda x, times=2: (x, x), "wrong", "the result returns 2 values; asked for is 1."),
    (lambda x, times=2: (x * times).float(), "wrong", "dtype torch.float32"),
    (lambda x, times=2: x / (times * 0) / 0, "wrong", "is wrong at"),
    (lambda x, times=2: undefined, "wrong", "it raised NameError"),  # noqa: F821
    (lambda x, times=2: x * times + (x == 0), "wrong", "zero does not stay zero."),
]


@pytest.mark.parametrize(("answer", "status", "says"), ROUTINES)
def test_a_routine_is_judged_by_what_it_returns(answer: Any, status: str, says: str) -> None:
    verdict = judge(DOUBLING, answer)

    assert verdict.status == status, verdict
    assert says in verdict.message


def test_a_routine_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRAD_COURSE_TIME_LIMIT", "0.2")

    verdict = judge(DOUBLING, looping)

    assert verdict.status == "wrong"
    assert "stopped after 0.2 s in your code" in verdict.message


BUG = NamingExercise(
    id="card",
    title="Card",
    rule="saved-twice",
    but={"oversaved": "It saves one tensor only."},
    **ABOUT,
)

NAMES = [
    ("saved-twice", "passed", "saved-twice: "),
    (" Saved_Twice ", "passed", "saved-twice: "),
    (..., "not attempted", "there is no answer yet"),
    ("", "not attempted", "there is no answer yet"),
    (3, "wrong", "hand in the name as text"),
    ("oversaved", "wrong", "It saves one tensor only."),
    ("flipped-sign", "wrong", "flipped-sign would mean: "),
    ("saved-twise", "wrong", "Did you mean saved-twice"),
    ("qqqq", "wrong", 'no rule is called "qqqq". autograd-course explain lists them all.'),
]


@pytest.mark.parametrize(("answer", "status", "says"), NAMES)
def test_the_name_of_a_bug_is_judged(answer: Any, status: str, says: str) -> None:
    verdict = judge(BUG, answer)

    assert verdict.status == status, verdict
    assert says in verdict.message
