"""A clue names the step of forward that backward differentiates incorrectly, or a wrong value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mistaken
import pytest
import torch
from autograd_doctor import diagnose
from autograd_doctor.card import clue_rows
from autograd_doctor.finding import Clue
from autograd_doctor.repair import Repair
from mistaken import (
    MISTAKEN,
    WRONG_SIGN,
    WRONG_VALUES,
    A,
    AngleByDivision,
    B,
    ClippedEverywhere,
    DependsOnMemory,
    Mistaken,
    OnlyOnTheExample,
    PartOfSeveral,
    WrongTwice,
    WrongValue,
    quantized,
)
from torch.autograd import Function


def clue(function: Any, *inputs: Any) -> Clue | None:
    diagnosis = diagnose(function, inputs)
    assert diagnosis.ok is False
    return next((it.clue for it in diagnosis.findings if it.clue), None)


@pytest.mark.parametrize("row", MISTAKEN, ids=lambda row: row.said)
def test_the_step_is_named(row: Mistaken) -> None:
    found = clue(row.wrong, *row.inputs)

    assert found is not None
    assert f"`backward` {row.said} in line {found.line}." in found.sentence
    step = row.said.rpartition("`")[0].rpartition("`")[2]
    with open(mistaken.__file__, encoding="utf-8") as source:
        line = source.readlines()[found.line - 1]
    assert step in line or step.split("(")[0] in line


@pytest.mark.parametrize("row", WRONG_VALUES, ids=lambda row: row.expression)
def test_the_wrong_value_is_named(row: WrongValue) -> None:
    found = clue(row.wrong, *row.inputs)

    assert found is not None
    assert found.method == "backward"
    with open(mistaken.__file__, encoding="utf-8") as source:
        lines = [line.strip() for line in source]
    assert row.expression.split("`")[1] in lines[found.line - 1]
    first, second = found.sentence.split(f" in line {found.line}. ")
    assert first == f"`backward` {row.expression}"
    with_it, _, then = second.partition(" in its place, ")
    assert with_it.startswith(f"With the {row.right} of line ")
    step = lines[int(with_it.rpartition(" ")[2]) - 1]
    assert row.right.split("`")[1].removesuffix("[1]") in step
    assert then == f"{row.then}."


@pytest.mark.parametrize("role", ["reference", "surrogate"])
def test_the_step_of_a_surrogate_is_named(role: str) -> None:
    """With ``detach``, autograd's gradient of a reference is not the slope of its values."""
    inputs = torch.linspace(-2, 2, 9, dtype=torch.float64), torch.tensor(0.31, dtype=torch.float64)
    diagnosis = diagnose(ClippedEverywhere, inputs, **{role: quantized})
    (finding,) = diagnosis.findings

    assert finding.rule == "gradient-mismatch"
    assert finding.clue is not None
    assert "as if nothing happened in `torch.clamp(" in finding.clue.sentence


def test_a_value_is_told_only_if_no_repair_says_more() -> None:
    """The repair names the change, so that the value would only repeat it."""
    diagnosis = diagnose(PartOfSeveral, WRONG_VALUES[2].inputs)
    (finding, *_) = diagnosis.findings
    assert finding.clue is not None
    repaired = Repair("", (), ("your example",))

    assert [*clue_rows(finding, None)]
    assert not [*clue_rows(finding, repaired)]
    assert [*clue_rows(finding, replace(repaired, left="Another gradient is wrong."))]


@pytest.mark.parametrize(
    ("why", "function", "inputs"),
    [
        ("autograd does not see the step", DependsOnMemory, (A,)),
        ("two steps are wrong", WrongTwice, (A, B)),
        ("the rule already says that the sign is wrong", WRONG_SIGN, (A, B)),
    ],
)
def test_there_is_no_clue_if(why: str, function: Any, inputs: tuple[Any, ...]) -> None:
    assert clue(function, *inputs) is None


def test_a_step_must_explain_the_gradient_of_other_values_too() -> None:
    found = clue(OnlyOnTheExample, A)

    assert found is None or "x.abs()` as a constant" in found.sentence


def test_a_value_must_help_beside_an_axis_too() -> None:
    """On the y-axis, the radius is y, so that it can replace other expressions there."""
    x, y = torch.zeros(5), torch.linspace(0.5, 2, 5)

    found = clue(AngleByDivision, x, y)

    assert found is None or "torch.hypot" not in found.sentence


def test_a_sum_over_the_wrong_dim_is_no_derivative_of_1() -> None:
    """In a square matrix that is antisymmetric, both sums differ only by their sign."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x.unsqueeze(-1) - x.unsqueeze(-2)).sum(-1)

    def backward(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        slope = 1 - torch.tanh(x.unsqueeze(-1) - x.unsqueeze(-2)) ** 2
        return (slope * (g.unsqueeze(-1) - g.unsqueeze(-2))).sum(-2)

    found = clue(mistaken.made(forward, backward), A)

    assert found is None or "takes 1" not in found.sentence


def test_a_clue_is_text_html_and_data() -> None:
    row = MISTAKEN[0]
    diagnosis = diagnose(row.wrong, row.inputs)
    (finding,) = diagnosis.findings
    assert finding.clue is not None

    assert f"because  {finding.clue.sentence[:40]}" in str(diagnosis)
    assert "<code>F.softplus(x)</code>" in diagnosis._repr_html_()
    assert finding.to_dict()["clue"] == {
        "method": "forward",
        "file": mistaken.__file__,
        "line": finding.clue.line,
        "sentence": finding.clue.sentence,
        "up_to_a_factor": False,
    }


def test_each_wrong_gradient_has_its_own_sentence() -> None:
    wrong = mistaken.made(
        lambda x, y: torch.exp(x * y) / y,
        lambda x, y, g: (g * torch.exp(x * y) / y, g * torch.exp(x * y) * x / y),
    )

    found = clue(wrong, A, B)

    assert found is not None
    assert (
        "For the gradient of `inputs[0]`, `backward` leaves out the factor `y` of" in found.sentence
    )
    assert "For the gradient of `inputs[1]`, `backward` treats `y` in" in found.sentence


def test_a_right_function_has_no_clue() -> None:
    right = mistaken.made(lambda x: x * x.exp(), lambda x, g: g * x.exp() * (1 + x))

    assert not [it.clue for it in diagnose(right, A).findings if it.clue]


def test_a_step_must_explain_the_gradient_for_other_numbers_too() -> None:
    """With two groups, a mean over the whole row looks like a forgotten factor 2."""

    class GroupNorm(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, groups: int) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.groups = groups
            rows = x.unflatten(-1, (groups, -1))
            return (rows * rows.pow(2).mean(-1, keepdim=True)).flatten(-2)

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, None]:
            (x,) = ctx.saved_tensors
            rows, g = (it.unflatten(-1, (ctx.groups, -1)) for it in (x, g))
            inner = (g * rows).sum(-1, keepdim=True) / x.shape[-1]
            return (g * rows.pow(2).mean(-1, keepdim=True) + 2 * inner * rows).flatten(-2), None

    found = clue(GroupNorm, torch.linspace(-1, 2, 36, dtype=torch.float64).reshape(3, 12), 2)

    assert found is None or "factor" not in found.sentence
