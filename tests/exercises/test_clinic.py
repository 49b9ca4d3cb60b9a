"""The descriptions of lesson 04's broken Functions, and which of the Functions pass gradcheck."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from answers.lesson_04 import RIGHT, SOLVED
from answers.making import double
from torch import Tensor
from torch.autograd import gradcheck

from autograd_course import diagnose
from autograd_course.grader import CATALOGUE, grade
from autograd_course.grader.exercise import FunctionExercise

ROWS = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3) / 3
POINTS = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2)
PIXELS = (double(0, 1, 4, 9, 16, 25, 36), torch.tensor([0, 2, 2, 5]), double(0.2, 0.7, 0.1, 0.5))

BROKEN = {
    "BrokenTempered": ((ROWS,), "captured-tensor", True),
    "BrokenFiLM": ((ROWS, double(1, 2, 3), double(0, 1, 0)), "frozen-input", True),
    "BrokenFloorLog": ((double(0.5, 0.02, 2.0), 0.1), "mutates-input", False),
    "BrokenDistance": ((ROWS, ROWS.flip(0)), "uniform-grad-output", False),
    "BrokenRotate": ((POINTS, 0.7), "grad-output-layout", True),
    "BrokenShare": ((ROWS, 0), "dim-argument", False),
    "BrokenLookUp": (PIXELS, "gradient-dtype", False),
    "BrokenLogCosh": ((ROWS,), "overflow", True),
    "BrokenSoftsign": ((ROWS,), "tensor-on-ctx", True),
    "BrokenSolve": ((ROWS, (0.1, 0.2)), "not-reentrant", False),
    "BrokenRMSNorm": ((ROWS,), "silent-double-backward", True),
    "BrokenDropout": ((ROWS, 0.4), "rng-not-restored", False),
}
each = pytest.mark.parametrize("name", BROKEN)


@pytest.fixture(autouse=True)
def temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define the tensor that BrokenTempered reads from its surroundings, as its cell does.

    The solved notebook's definitions have no module. A user's own code has a module, and the doctor
    looks into it.
    """
    learned = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    tempered = SOLVED["BrokenTempered"]
    monkeypatch.setitem(tempered.forward.__globals__, "temperature", learned)
    for owner in (tempered, tempered.forward, tempered.backward):
        monkeypatch.setattr(owner, "__module__", __name__)


@each
def test_a_broken_function_has_the_mistake_that_its_owner_reports(name: str) -> None:
    inputs, rule, _ = BROKEN[name]
    twice = True if rule == "silent-double-backward" else None

    assert diagnose(SOLVED[name], inputs, double_backward=twice).findings[0].rule == rule


@each
def test_gradcheck_passes_the_half_that_the_notebook_says(name: str) -> None:
    inputs, _, passes = BROKEN[name]
    leaves = [_leaf(value) for value in inputs]
    try:
        passed = gradcheck(SOLVED[name].apply, leaves, raise_exception=False)
    except RuntimeError:
        passed = False

    assert passed == passes


def test_the_mistakes_to_locate_are_those_that_the_doctor_finds() -> None:
    found = {rule for _, rule, _ in BROKEN.values()}
    located = [CATALOGUE[name] for name in RIGHT if name.startswith("name-")]

    assert {exercise.rule for exercise in located} <= found


def test_a_pass_names_the_public_bug() -> None:
    message = grade("repair-film", RIGHT["repair-film"]).message

    assert message.endswith(f" Modeled on {repaired('repair-film').modeled_on}.")


@pytest.mark.parametrize("exercise", [e for e in RIGHT if e.startswith("repair-")])
def test_no_hint_names_the_public_bug(exercise: str) -> None:
    number = re.search(r"#\d+", repaired(exercise).modeled_on)

    assert number
    assert not any(number[0] in hint for hint in repaired(exercise).hints)


def repaired(exercise: str) -> FunctionExercise:
    described = CATALOGUE[exercise]
    assert isinstance(described, FunctionExercise)
    return described


def _leaf(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.clone().requires_grad_() if floating else value
