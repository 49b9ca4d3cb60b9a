"""What lesson 13 teaches of PyTorch and SciPy, pinned: a release that changes a fact fails here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
import torch
from made import leaf, make
from packaging.version import Version
from torch import Tensor
from torch.autograd import grad, gradcheck, gradgradcheck

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


def spring(k: Tensor, load: Tensor, rounds: int) -> Tensor:
    """Return the y with k·y + y³ = load, after some rounds."""
    y = load / k
    for _ in range(rounds):
        y = load / (k + y**2)
    return y


def implicit_slope(k: Tensor, y: Tensor) -> Tensor:
    return -y / (k + 3 * y**2)


def energy(k: Tensor, y: Tensor) -> Tensor:
    return k * y**2 / 2 + y**4 / 4


LOAD = torch.tensor(1.0, dtype=torch.float64)


def test_a_detached_spring_gives_the_energy_a_gradient_of_the_wrong_sign() -> None:
    k = leaf(1.0)
    y = spring(k, LOAD, 100)
    whole, direct = grad(energy(k, y), k)[0], grad(energy(k, y.detach()), k)[0]

    assert whole.item() < 0 < direct.item()


@pytest.mark.parametrize("rounds", [1, 2, 5, 10, 30])
def test_of_an_unfinished_solver_the_implicit_gradient_is_closer(rounds: int) -> None:
    k = leaf(1.0)
    true = implicit_slope(k, spring(k, LOAD, 300))
    y = spring(k, LOAD, rounds)
    recorded, implicit = grad(y, k)[0], implicit_slope(k, y)

    assert (implicit - true).abs() < (recorded - true).abs()


def test_the_last_round_alone_never_becomes_right() -> None:
    k = leaf(1.0)
    y = spring(k, LOAD, 300).detach()
    last = grad(LOAD / (k + y**2), k)[0]

    assert (last / implicit_slope(k, y)).item() == pytest.approx(
        ((k + 3 * y**2) / (k + y**2)).item()
    )  # 1 - J, by which it does not divide


# Estimates


def test_differences_of_a_rounded_value_have_a_best_step_near_the_cube_root_of_its_precision() -> (
    None
):
    def off(h: float) -> float:
        above, below = (float(f"{math.lgamma(20 + side * h):.6g}") for side in (1, -1))
        return abs((above - below) / (2 * h) / 2.970524 - 1)  # digamma(20)

    assert off(1.0) < 1e-3
    assert off(1e-6) > 0.5
    assert off(10.0) > 10 * off(1.0)
