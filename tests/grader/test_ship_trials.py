"""The assumptions of lesson 15's grader about its references, its tools and its sentences."""

from __future__ import annotations

import pytest
import torch
from answers import RIGHT
from torch import Tensor, nn

from autograd_course.exercises.lesson_15_ship_it import round_away_in_onnx
from autograd_course.exercises.lesson_15_ship_it.eight_bits import eight_bits
from autograd_course.grader import grade
from autograd_course.grader.trials.exporting import delivered, described, exported
from autograd_course.grader.trials.products import data_used
from autograd_course.grader.verdict import Verdict
from autograd_course.ship import missing, quiet

pytestmark = pytest.mark.slow

needs_torchao = pytest.mark.skipif(
    bool(missing("torchao")), reason="the extra ship is not installed"
)


@needs_torchao
def test_eight_bits_that_train_are_those_of_torchao() -> None:
    with quiet():
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(50, 40, generator=rng)
    layer = nn.Linear(40, 50, bias=False)
    layer.weight.data = weight.clone()
    with quiet():
        quantize_(layer, Int8WeightOnlyConfig())
    steps = (layer.weight.dequantize() - eight_bits(weight)) / layer.weight.scale

    assert steps.abs().max() < 1.01  # 1 if w / s is exactly a half
    assert (steps.abs() > 0.01).float().mean() < 0.01


def test_a_missing_package_is_not_the_learners_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*names: str) -> None:
        raise round_away_in_onnx.MissingExtraError(f"{names[0]} is not installed: run pip.")

    monkeypatch.setattr(round_away_in_onnx, "require_packages", absent)
    result = grade("round-away-in-onnx", RIGHT["round-away-in-onnx"])

    assert result.status == "grader failed"
    assert "onnx is not installed: run pip." in result.message


def test_what_comes_to_each_product_is_told_from_its_weights() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 2))
    one, other = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))

    first, second = data_used(net, one, other)

    assert torch.equal(first, one)
    torch.testing.assert_close(second, net[:2](one).detach())


def test_a_program_is_looked_at_as_it_is_loaded() -> None:
    net, x = nn.Linear(4, 3), torch.ones(2, 4)
    with quiet():
        program = torch.export.export(net, (x,))
    loaded = delivered(program)

    assert isinstance(loaded, nn.Module)
    torch.testing.assert_close(loaded(x), exported(net, x)(x))
    assert loaded.get_parameter("weight") is not net.weight


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "None"),
        (3, "something of type int"),
        (torch.ones(1), "something of type Tensor"),
        (torch.fx.symbolic_trace(nn.ReLU()), "a GraphModule, as .module() makes one"),
    ],
)
def test_what_is_no_program_is_named(returned: Tensor | int | None, says: str) -> None:
    verdict = delivered(returned)

    assert says in described(returned)
    assert isinstance(verdict, Verdict)
    assert f"the function returns {says}" in verdict.message
