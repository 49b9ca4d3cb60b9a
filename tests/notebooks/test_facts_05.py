"""Facts about PyTorch in lesson 05. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from made import CLAMP_AT_BOUNDS, leaf
from torch import Tensor
from torch.autograd import Function, gradcheck
from torch.nn.functional import hardtanh

from autograd_course import diagnose
from autograd_course.functions import (
    ClippedSTE,
    FakeQuantize,
    RoundSTE,
    SignSTE,
)

pytestmark = pytest.mark.slow

# Staircases


@pytest.mark.parametrize("f", [torch.round, torch.floor, torch.ceil, torch.trunc, torch.sign])
def test_a_staircase_has_a_zero_gradient_and_raises_nothing(f: Callable[[Tensor], Tensor]) -> None:
    x = leaf(-1.5, 0.0, 0.7)
    assert torch.autograd.grad(f(x).sum(), x)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x: x > 0, id="comparison"),
        pytest.param(torch.argmax, id="argmax"),
        pytest.param(lambda x: x.int(), id="int"),
        pytest.param(lambda x: torch.where(x > 0, 1.0, -1.0), id="where of constants"),
    ],
)
def test_booleans_and_integers_leave_no_node(f: Callable[[Tensor], Tensor]) -> None:
    assert f(leaf(-1.5, 0.7)).grad_fn is None


@pytest.mark.parametrize(
    ("f", "name"),
    [
        pytest.param(lambda x: x // 1, "floor_divide", id="//"),
        pytest.param(lambda x: torch.heaviside(x, torch.ones_like(x)), "heaviside", id="heaviside"),
    ],
)
def test_few_staircases_raise(f: Callable[[Tensor], Tensor], name: str) -> None:
    with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
        f(leaf(-1.5, 0.7)).sum().backward()


def test_sign_has_a_third_level_and_the_estimators_have_two() -> None:
    x = torch.tensor([-0.0, 0.0])
    assert torch.sign(x).tolist() == [0, 0]
    assert SignSTE.apply(x).tolist() == [1, 1]
    assert ClippedSTE.apply(x).tolist() == [1, 1]


def test_round_takes_halves_to_the_even_one() -> None:
    assert torch.tensor([-1.5, -0.5, 0.5, 1.5, 2.5]).round().tolist() == [-2, 0, 0, 2, 2]


# Testing


def test_an_estimator_fails_gradcheck_and_is_tested_against_its_surrogate() -> None:
    x = leaf(-1.7, -0.4, 0.3, 2.2)
    assert not gradcheck(ClippedSTE.apply, x, raise_exception=False)
    assert diagnose(ClippedSTE, x).findings[0].rule == "undeclared-surrogate"
    assert diagnose(ClippedSTE, x, surrogate=lambda x: x.clamp(-1, 1)).ok
    assert not diagnose(ClippedSTE, x, surrogate=lambda x: 1 * x).ok


@pytest.mark.parametrize(
    ("f", "at_bounds"),
    [
        pytest.param(lambda x: x.clamp(-1, 1), 2 * [CLAMP_AT_BOUNDS], id="clamp"),
        pytest.param(hardtanh, [0.0, 0.0], id="hardtanh stops"),
        pytest.param(
            lambda x: torch.minimum(torch.maximum(x, -torch.ones(())), torch.ones(())),
            [0.5, 0.5],
            id="minimum and maximum halve",
        ),
        pytest.param(ClippedSTE.apply, [1.0, 1.0], id="ClippedSTE passes"),
    ],
)
def test_conventions_at_the_bounds_of_a_clip(
    f: Callable[[Tensor], Tensor], at_bounds: list[float]
) -> None:
    x = leaf(-1.0, 1.0)
    assert torch.autograd.grad(f(x).sum(), x)[0].tolist() == at_bounds


class HalfWindow(Function):
    """The clipped estimator whose mask forgets one side, as in the lesson."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x <= 1)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (inside,) = ctx.saved_tensors
        return grad_output * inside


def gradient(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return torch.autograd.grad(f(x).sum(), x)[0]


def test_clamped_weights_do_not_show_a_mask_that_forgets_one_side() -> None:
    clamped = torch.linspace(-1, 1, 101, dtype=torch.float64, requires_grad=True)
    for f in (HalfWindow, SignSTE):  # so all three train the net of the lesson to the same weights
        assert torch.equal(gradient(f.apply, clamped), gradient(ClippedSTE.apply, clamped))
    assert gradient(HalfWindow.apply, leaf(-2.0)) == 1
    assert gradient(ClippedSTE.apply, leaf(-2.0)) == 0


def test_the_upstream_gradient_is_taken_at_the_quantized_value() -> None:
    x = leaf(0.4)
    assert gradient(lambda x: (3 * SignSTE.apply(x) - 1) ** 2, x).item() == pytest.approx(12)
    assert gradient(lambda x: (3 * x - 1) ** 2, x).item() == pytest.approx(1.2)


def test_a_surrogate_close_to_the_sign_gives_few_weights_a_gradient() -> None:
    x = torch.linspace(-0.3, 0.3, 600, dtype=torch.float64, requires_grad=True)
    shares = []
    for k in (1, 10, 100, 1000):
        slopes = gradient(lambda x, k=k: torch.tanh(k * x), x)  # type: ignore[misc]
        shares.append((slopes > 0.5).double().mean().item())
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert shares[-1] < 0.02


# The detach trick


def test_the_detach_trick_is_the_function() -> None:
    x, g = leaf(-3.0, -0.4, 0.0, 0.9, 1.5), torch.tensor([1.0, -2.0, 0.5, 3.0, 1.0]).double()
    h = x.clamp(-1, 1)
    trick = h + (SignSTE.apply(x) - h).detach()
    assert torch.equal(trick, ClippedSTE.apply(x))
    assert torch.equal(*(torch.autograd.grad(y, x, g)[0] for y in (trick, ClippedSTE.apply(x))))


@pytest.mark.parametrize(("dtype", "missed"), [(torch.float16, 3328), (torch.bfloat16, 320)])
def test_between_0_and_1_the_detach_trick_is_exact_if_it_subtracts_first(
    dtype: torch.dtype, missed: int
) -> None:
    p = torch.arange(2**15, dtype=torch.int16).view(dtype)
    p = p[(p >= 0) & (p <= 1)]
    one = torch.ones_like(p)
    for hard in (one, 0 * one):
        assert torch.equal(hard - p + p, hard)
        assert torch.equal(p + (hard - p), hard)
    assert int(((one + p) - p != 1).sum()) == missed


def test_the_detach_trick_loses_the_sign_of_large_values() -> None:
    x = torch.tensor([0.3, 300.0, float("inf")], dtype=torch.bfloat16)
    lost = x + (torch.sign(x) - x)
    assert lost[:2].tolist() == [1, 0]
    assert lost[2].isnan()
    assert SignSTE.apply(x).tolist() == [1, 1, 1]


# Bias


def test_with_dither_the_estimator_is_exact_for_a_linear_loss_only() -> None:
    u = (torch.arange(1000).double() + 0.5) / 1000 - 0.5
    x = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    y = RoundSTE.apply(x + u)
    assert y.mean().item() == pytest.approx(0.3)
    linear, square = (torch.autograd.grad(loss.mean(), x)[0].item() for loss in (5 * y, y**2))
    assert linear == pytest.approx(5)
    assert square == pytest.approx(2 * 0.3)  # the expected loss climbs from 0² to 1²: slope 1


def test_a_biased_estimator_stops_where_the_true_gradient_is_not_zero() -> None:
    p = torch.tensor(0.49, dtype=torch.float64)
    u = (torch.arange(1000).double() + 0.5) / 1000
    b = (u < p).double()
    assert (2 * (b - 0.49)).mean().item() == pytest.approx(0, abs=1e-12)
    heads, tails = (1 - 0.49) ** 2, 0.49**2
    assert heads - tails == pytest.approx(0.02)


# Quantization


def test_fake_quantize_clips_by_the_rounded_level() -> None:
    v = torch.tensor([-2.6, -2.4, -2.0, 1.0, 1.4, 1.6])
    x = (v * 0.5).requires_grad_()
    y = torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -2, 1)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 1, 1, 1, 1, 0]
    y = FakeQuantize.apply(x, torch.tensor(0.5), -2, 1)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 0, 1, 1, 0, 0]


def test_fake_quantize_has_no_gradient_for_its_scale() -> None:
    x, scale = torch.ones(3), torch.tensor(0.5, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'scale'"):
        torch.fake_quantize_per_tensor_affine(x, scale, torch.tensor(0), -2, 1)


def test_torchs_private_learned_scale_has_the_gradient_of_lsq() -> None:
    x = torch.tensor([-1.3, -0.2, 0.3, 0.9])  # v: -2.6, -0.4, 0.6, 1.8
    scale, zero = torch.tensor([0.5], requires_grad=True), torch.zeros(1, requires_grad=True)
    theirs = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, -2, 1)
    ours = FakeQuantize.apply(x, scale, -2, 1)
    assert torch.equal(theirs, ours)
    gradients = [torch.autograd.grad(y.sum(), scale)[0] for y in (theirs, ours)]
    assert torch.allclose(*gradients)
    assert gradients[1].item() == pytest.approx(-2 + 0.4 + 0.4 + 1)
