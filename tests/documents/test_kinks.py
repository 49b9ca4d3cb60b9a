"""Each row of the table in docs/kinks.md is run, and so is the page's test on its Function."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pages import blocks
from repository import ROOT
from torch import Tensor
from torch.autograd import gradcheck

pytestmark = pytest.mark.checkout  # only for the pinned PyTorch

PAGE = ROOT / "docs" / "kinks.md"
TEXT = PAGE.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    call: str
    point: Any
    slopes: list[float]
    rule: int
    gradient: list[float]
    follows: bool
    gradcheck: str

    def __str__(self) -> str:
        return f"{self.call} at {self.point}"

    def __call__(self, x: Tensor) -> Any:
        return eval(self.call, {"torch": torch, "F": F, "x": x})

    def at(self, shift: float = 0.0) -> Tensor:
        return (torch.tensor(self.point, dtype=torch.float64) + shift).requires_grad_()


def row(line: str) -> Row:
    call, point, slopes, rule, gradient, check = (
        cell.strip().strip("`") for cell in line.strip("|").split("|")
    )
    numbers = [float(number) for number in gradient.strip("*").split(",")]
    sides = [float(number) for number in slopes.split(",") if number]
    follows = not gradient.startswith("*")
    return Row(call, ast.literal_eval(point), sides, int(rule), numbers, follows, check)


LINES = TEXT[TEXT.index("| Call |") :].partition("\n\n")[0].splitlines()[2:]
ROWS = [row(line) for line in LINES]


def minimum_norm(left: float, right: float) -> float:
    low, high = sorted((left, right))
    return min(max(0.0, low), high)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_gradient_is_the_one_of_the_table(row: Row) -> None:
    x = row.at()
    (gradient,) = torch.autograd.grad(row(x), x)

    assert gradient.flatten().tolist() == pytest.approx(row.gradient, nan_ok=True)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_gradcheck_does_what_the_table_says(row: Row) -> None:
    passes = gradcheck(row, row.at(), raise_exception=False)

    assert {"passes": True, "fails": False}[row.gradcheck] == passes


STEP = 1e-6
OF_TWO_SLOPES = [row for row in ROWS if row.slopes]


@pytest.mark.parametrize("row", OF_TWO_SLOPES, ids=str)
def test_the_slopes_are_those_of_the_table(row: Row) -> None:
    left = (row(row.at()) - row(row.at(-STEP))).item() / STEP
    right = (row(row.at(STEP)) - row(row.at())).item() / STEP

    assert [left, right] == pytest.approx(row.slopes, abs=1e-5)


@pytest.mark.parametrize("row", OF_TWO_SLOPES, ids=str)
def test_the_rule_is_the_one_that_applies(row: Row) -> None:
    sides = [abs(row(row.at(s * STEP)) - 2 * row(row.at(s * 2 * STEP)) + row(row.at(s * 3 * STEP)))
             for s in (-1, 1)]  # fmt: skip
    straight = max(sides).item() < 1e-15
    left, right = row.slopes

    assert row.rule == ((2 if left < right else 3) if straight else 4)
    if straight:
        assert row.follows == math.isclose(row.gradient[0], minimum_norm(left, right))
    else:
        assert row.follows == (row.gradient[0] in row.slopes)


def test_a_tie_and_a_zero_norm_have_a_subgradient_of_minimum_norm() -> None:
    ties = {row.call: row for row in ROWS if row.rule == 2 and not row.slopes}
    shortest = {"[1.0, 1.0]": [0.5, 0.5], "[0.0, 0.0]": [0.0, 0.0]}

    assert len(ties) == 6
    for row in ties.values():
        assert row.follows == (row.gradient == shortest[str(row.point)])


def test_the_gradient_of_bernoulli_is_zero_although_rule_6_asks_for_an_error() -> None:
    x = torch.full((3,), 0.5, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.bernoulli(x).sum(), x)

    said = "`torch.bernoulli` does not follow rule 6, because it returns a gradient of 0."
    assert said in " ".join(TEXT.split())
    assert gradient.tolist() == [0, 0, 0]


def test_the_test_on_the_page_passes_for_its_function() -> None:
    *shown, test = (block.text for block in blocks(PAGE) if block.language == "python")
    scope: dict[str, Any] = {"__name__": "page"}
    (clip,) = (text for text in shown if "class Clip" in text)
    exec(clip.partition("x = torch.tensor")[0] + test, scope)

    scope["test_slope_at_the_kinks"]()


def test_the_page_names_the_version() -> None:
    assert f"PyTorch {'.'.join(torch.__version__.split('.')[:2])} on a CPU" in TEXT
