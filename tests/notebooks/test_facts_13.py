"""Facts about PyTorch and SciPy in lesson 13. If a release changes a fact, its test fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
import torch
from autograd_doctor.memory import kept_bytes
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


@pytest.mark.parametrize("n", [-1, 0, 2])
def test_scipys_derivative_of_a_bessel_function_is_half_a_difference_of_its_neighbors(
    n: int,
) -> None:
    x = np.array([0.5, 2.0, 5.0])
    half = (scipy.special.jv(n - 1, x) - scipy.special.jv(n + 1, x)) / 2
    assert scipy.special.jvp(n, x) == pytest.approx(half)


def test_lambertw_returns_complex_numbers() -> None:
    w = scipy.special.lambertw(np.array([0.0, math.e]))

    assert np.iscomplexobj(w)
    assert w.real == pytest.approx([0, 1])
    assert not w.imag.any()


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
    """Return the y that solves k·y + y³ = load, after some rounds."""
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


def test_descent_with_a_detached_spring_moves_the_stiffness_in_the_wrong_direction() -> None:
    def stiffness(detach: bool) -> float:
        raw = leaf(0.0)
        optimizer = torch.optim.Adam([raw], lr=0.05)
        for _ in range(100):
            k = raw.exp()
            y = spring(k.detach(), LOAD, 100)
            if not detach:
                y = y + implicit_slope(k.detach(), y) * (k - k.detach())
            optimizer.zero_grad()
            (energy(k, y) - 0.2).square().backward()
            optimizer.step()
        return raw.exp().item()

    assert stiffness(detach=True) < 0.5
    assert stiffness(detach=False) == pytest.approx(2.24, abs=0.05)


@pytest.mark.parametrize("rounds", [10, 50])
def test_unrolling_saves_two_vectors_a_round(rounds: int) -> None:
    k, loads = leaf(1.0), torch.linspace(0.1, 1.5, 1000, dtype=torch.float64, requires_grad=True)
    kept = kept_bytes(lambda k, load: spring(k, load, rounds), k, loads, anyway=True)
    assert kept / loads.nbytes == pytest.approx(2 * rounds, abs=2)


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
    )  # 1 - J, by which backward does not divide


# Kepler's equation


def kepler(M: Tensor, e: Tensor) -> Tensor:
    """Return the E that solves E - e sin E = M."""
    E = M + e * M.sin()
    for _ in range(50):
        E = E - (E - e * E.sin() - M) / (1 - e * E.cos())
    return E


def test_differentiating_keplers_equation_gives_the_gradients_of_its_solution() -> None:
    M, e = leaf(0.5, 2.0, 5.0), leaf(0.6)
    E = kepler(M, e)
    by_M, by_e = grad(E.sum(), (M, e))
    E = E.detach()

    torch.testing.assert_close(by_M, 1 / (1 - e * E.cos()))
    torch.testing.assert_close(by_e.sum(), (E.sin() / (1 - e * E.cos())).sum())


def test_the_loss_falls_with_an_incomplete_gradient_and_the_orbit_stays_wrong() -> None:
    t = torch.linspace(0, 1, 60, dtype=torch.float64)

    def velocity(e: Tensor, tau: Tensor) -> Tensor:
        E = kepler((2 * math.pi * (t - tau)) % (2 * math.pi), e).detach()
        nu = 2 * torch.atan2((1 + e).sqrt() * (E / 2).sin(), (1 - e).sqrt() * (E / 2).cos())
        return (nu + 0.8).cos() + e * math.cos(0.8)

    measured = velocity(torch.tensor(0.6), torch.tensor(0.35))
    e, tau = leaf(0.31), leaf(0.25)
    losses = []
    for _ in range(200):
        loss = (velocity(e, tau) - measured).square().mean()
        (by_e,) = grad(loss, e)
        e = (e - 0.02 * by_e).detach().requires_grad_()
        losses.append(loss.item())

    assert grad(velocity(e, tau).sum(), tau, allow_unused=True) == (None,)
    assert losses[-1] < losses[0]
    assert losses[-1] > 0.01


# Estimates


def test_the_derivative_of_a_frozen_surrogate_is_the_score_function_estimate() -> None:
    mu, noise = leaf(0.8), torch.randn(16, dtype=torch.float64)
    z = (mu + noise).detach()
    (gradient,) = grad((z**2 * -0.5 * (z - mu) ** 2).mean(), mu)

    torch.testing.assert_close(gradient.sum(), (z**2 * noise).mean())


def difference(x: float, digits: int, h: float) -> float:
    above, below = (float(f"{math.lgamma(x + side * h):.{digits}g}") for side in (1, -1))
    return (above - below) / (2 * h)


@pytest.mark.parametrize("x", [2.0, 5.0, 20.0, 50.0])
def test_a_central_difference_of_lgamma_is_good_to_a_millionth(x: float) -> None:
    assert difference(x, 17, 1e-4) == pytest.approx(scipy.special.digamma(x), rel=1e-6)


def test_a_biased_gradient_changes_the_path_of_newtons_method_and_not_its_solution() -> None:
    x = 10.0
    assert abs(difference(x, 17, 4.0) / scipy.special.digamma(x) - 1) > 0.01

    for _ in range(12):
        x -= (math.lgamma(x) - 30) / difference(x, 17, 4.0)

    assert math.lgamma(x) == pytest.approx(30, rel=1e-12)


def test_differences_of_a_rounded_value_have_a_best_step_near_the_cube_root_of_its_precision() -> (
    None
):
    def off(h: float) -> float:
        return abs(difference(20.0, 6, h) / scipy.special.digamma(20.0) - 1)

    assert off(1.0) < 1e-3
    assert off(1e-6) > 0.5
    assert off(10.0) > 10 * off(1.0)
