"""Facts about C++ operators in lesson 14. If a release changes a fact, its test fails."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from builds import NEEDS_COMPILER
from made import leaf, make
from repository import ROOT
from torch import Tensor
from torch.autograd import Function, gradcheck, gradgradcheck

from autograd_course import diagnose
from autograd_course.external import SOURCES, build

Stretch = tuple[float, float]

pytestmark = pytest.mark.slow

# Operators in C++


@NEEDS_COMPILER
def test_the_result_of_an_operator_without_autograd_requires_grad_but_gives_no_gradient() -> None:
    x = leaf(1.0, 2.0)
    y = build(SOURCES / "decayed_sum.cpp").decayed_sum(x, 0.5, False)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        y.sum().backward()

    assert y.requires_grad
    assert x.grad is None
    assert "an autograd kernel was not registered" in str(warned[0].message)


@NEEDS_COMPILER
@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered")
def test_a_function_that_calls_itself_in_backward_supports_double_backward() -> None:
    operator = build(SOURCES / "decayed_sum.cpp").decayed_sum
    x = leaf(1.0, -2.0, 0.5)

    assert gradgradcheck(Recurrent.apply, (x, operator, False))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradgradcheck(OnceRecurrent.apply, (x, operator, False))


class Recurrent(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, operator: Any, reverse: bool) -> Tensor:
        ctx.call = operator, reverse
        return operator(x, 0.5, reverse)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        operator, reverse = ctx.call
        return Recurrent.apply(g, operator, not reverse), None, None


class OnceRecurrent(Recurrent):
    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        operator, reverse = ctx.call
        return operator(g, 0.5, not reverse), None, None


@NEEDS_COMPILER
def test_gradcheck_accepts_a_kernel_that_ignores_the_layout_and_diagnose_does_not() -> None:
    source = (SOURCES / "decayed_sum.cpp").read_text(encoding="utf-8")
    careless = build(source.replace("torch::stable::contiguous(given)", "given"), name="careless")
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    inputs = (x, careless.decayed_sum, False)

    assert gradcheck(Recurrent.apply, inputs)
    found = {finding.rule for finding in diagnose(Recurrent, inputs).findings}
    assert {"grad-output-layout", "input-layout"} <= found


def test_after_a_sum_grad_output_is_one_number_expanded() -> None:
    seen: list[tuple[tuple[int, ...], int]] = []

    def backward(ctx: Any, g: Tensor) -> Tensor:
        seen.append((g.stride(), g.untyped_storage().nbytes()))
        return g

    make(lambda ctx, x: x * 1, backward).apply(leaf(1.0, 2.0, 3.0)).sum().backward()
    assert seen == [((0,), 8)]


def test_the_lesson_shows_the_registration_that_the_source_has() -> None:
    lesson = ROOT / "notebooks" / "14_external_code.py"
    shown = lesson.read_text(encoding="utf-8").split("# ```cpp\n")[1].split("# ```")[0]
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in shown.splitlines())

    assert text.strip() in (SOURCES / "decayed_sum.cpp").read_text(encoding="utf-8")


@NEEDS_COMPILER
def test_an_operator_for_the_cpu_alone_cannot_be_called_with_meta_tensors() -> None:
    with pytest.raises(NotImplementedError, match="no fake impl or Meta kernel"):
        build(SOURCES / "decayed_sum.cpp").decayed_sum(torch.empty(2, device="meta"), 0.5, False)


@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_joining_stretches_of_time_in_any_order_gives_the_loop(length: int) -> None:
    """A segment of time (A, S) multiplies its input by A and adds S."""

    def join(first: Stretch, second: Stretch) -> Stretch:
        return first[0] * second[0], second[0] * first[1] + second[1]

    def in_halves(steps: list[Stretch]) -> Stretch:
        middle = len(steps) // 2
        return join(in_halves(steps[:middle]), in_halves(steps[middle:])) if middle else steps[0]

    a, x = 0.9, torch.randn(length, generator=torch.Generator().manual_seed(0)).tolist()
    y = 0.0
    for x_t in x:
        y = x_t + a * y

    assert in_halves([(a, x_t) for x_t in x])[1] == pytest.approx(y)
