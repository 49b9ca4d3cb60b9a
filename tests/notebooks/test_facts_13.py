"""What lesson 13 teaches of PyTorch and SciPy, pinned: a release that changes a fact fails here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy
import torch
from builds import NEEDS_COMPILER
from made import leaf, make
from packaging.version import Version
from repository import ROOT
from torch import Tensor
from torch.autograd import grad, gradcheck, gradgradcheck

from autograd_course.external import SOURCES, build

pytestmark = pytest.mark.slow

# NumPy and SciPy inside a Function


@pytest.mark.parametrize("call", [np.sin, scipy.special.j0, lambda x: x.numpy()])
def test_numpy_refuses_a_tensor_with_a_graph_and_names_the_way_to_silence_it(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
        call(leaf(1.0))


def test_a_detached_call_leaves_an_incomplete_gradient() -> None:
    x = leaf(2.0)
    (x * torch.from_numpy(np.square(x.detach().numpy()))).sum().backward()

    assert x.grad is not None
    assert x.grad.item() == 4  # of x · x², 12 is right


def test_numpy_and_a_tensor_on_the_host_share_memory_both_ways() -> None:
    x = torch.zeros(2)
    x.numpy(force=True)[0] = 1
    array = np.zeros(2)
    torch.as_tensor(array)[0] = 1

    assert x.tolist() == array.tolist() == [1, 0]


def test_bfloat16_has_no_numpy_type() -> None:
    with pytest.raises(TypeError, match="unsupported ScalarType BFloat16"):
        torch.zeros(1, dtype=torch.bfloat16).numpy()


def test_torchs_own_bessel_function_has_a_graph_from_2_15_on() -> None:
    newer = Version(torch.__version__) >= Version("2.15")
    assert torch.special.bessel_j0(leaf(1.0)).requires_grad is newer


def test_a_slope_from_numpy_is_right_once() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.as_tensor(scipy.special.j0(x.numpy(force=True)))

    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return -g * torch.as_tensor(scipy.special.j1(x.numpy(force=True)))

    f = make(forward, backward).apply
    assert gradcheck(f, leaf(0.5, 2.0))
    assert not gradgradcheck(f, leaf(0.5, 2.0), raise_exception=False)


# Solvers


def kepler(M: Tensor, e: Tensor, rounds: int) -> Tensor:
    E = M
    for _ in range(rounds):
        E = M + e * E.sin()
    return E


def implicit_slope(E: Tensor, e: Tensor) -> Tensor:
    return E.sin() / (1 - e * E.cos())


@pytest.mark.parametrize("rounds", [3, 5, 10])
def test_of_an_unfinished_solver_the_implicit_gradient_is_closer(rounds: int) -> None:
    M, e = torch.tensor(1.0, dtype=torch.float64), leaf(0.8)
    true = implicit_slope(kepler(M, e, 300), e)
    E = kepler(M, e, rounds)
    recorded, implicit = grad(E, e)[0], implicit_slope(E, e)

    assert (implicit - true).abs() < (recorded - true).abs()


def test_the_last_round_alone_never_becomes_right() -> None:
    M, e = torch.tensor(1.0, dtype=torch.float64), leaf(0.8)
    E = kepler(M, e, 300)
    last = grad(M + e * E.detach().sin(), e)[0]

    assert (last / implicit_slope(E, e)).item() == pytest.approx(
        (1 - e * E.cos()).item()
    )  # the factor that is left out


# Operators in C++


@NEEDS_COMPILER
def test_a_result_of_an_operator_without_autograd_requires_grad_and_passes_nothing_on() -> None:
    x = leaf(1.0, 2.0)
    y = build(SOURCES / "decayed_sum.cpp").decayed_sum(x, 0.5, False)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        y.sum().backward()

    assert y.requires_grad
    assert x.grad is None
    assert "an autograd kernel was not registered" in str(warned[0].message)


def test_behind_a_sum_grad_output_is_one_number_expanded() -> None:
    seen: list[tuple[tuple[int, ...], int]] = []

    def backward(ctx: Any, g: Tensor) -> Tensor:
        seen.append((g.stride(), g.untyped_storage().nbytes()))
        return g

    make(lambda ctx, x: x * 1, backward).apply(leaf(1.0, 2.0, 3.0)).sum().backward()
    assert seen == [((0,), 8)]


def test_the_lesson_shows_the_registration_that_the_source_has() -> None:
    lesson = ROOT / "notebooks" / "13_external_code.py"
    shown = lesson.read_text(encoding="utf-8").split("# ```cpp\n")[1].split("# ```")[0]
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in shown.splitlines())

    assert text.strip() in (SOURCES / "decayed_sum.cpp").read_text(encoding="utf-8")
