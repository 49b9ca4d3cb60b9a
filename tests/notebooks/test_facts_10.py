"""Facts about PyTorch in lesson 10. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from made import leaf
from torch import Tensor
from torch.autograd import grad, gradcheck
from torch.nn.functional import gumbel_softmax, one_hot

from autograd_course import diagnose
from autograd_course.functions import GumbelSoftmax, ReinMax
from autograd_course.functions.noise import gumbel_noise

pytestmark = pytest.mark.slow

# A choice ends the graph


@pytest.mark.parametrize(
    "choose",
    [
        pytest.param(lambda p: torch.multinomial(p, 1), id="multinomial"),
        pytest.param(lambda p: p.argmax(-1, keepdim=True), id="argmax"),
    ],
)
def test_a_choice_trains_the_decoder_and_leaves_the_encoder_without_a_gradient(
    choose: Callable[[Tensor], Tensor],
) -> None:
    logits, decoder = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    decoder[choose(logits.softmax(-1))].sum().backward()
    assert logits.grad is None
    assert decoder.grad is not None
    assert decoder.grad.sum() == 4


# Noise


def test_the_largest_of_noisy_logits_is_a_draw_from_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)
    noise = gumbel_noise(logits.expand(100_000, 3), torch.Generator().manual_seed(0))
    counts = one_hot((logits + noise).argmax(-1), 3).double().mean(0)
    assert torch.allclose(counts, logits.softmax(-1), atol=0.01)


def test_a_sample_with_noise_of_its_own_fails_gradcheck() -> None:
    def inside(logits: Tensor) -> Tensor:
        return (logits + gumbel_noise(logits)).softmax(-1)

    assert not gradcheck(inside, leaf(0.5, -0.3, 0.1), raise_exception=False)


def test_the_gradient_of_a_row_of_logits_sums_to_zero() -> None:
    logits, noise, g = leaf(0.5, -0.3, 0.1), torch.tensor([0.2, 1.0, -0.4]).double(), leaf(3, -2, 1)
    for y in (GumbelSoftmax.apply(logits, noise, 0.5, True), ReinMax.apply(logits, noise)):
        assert grad(y, logits, g)[0].sum().item() == pytest.approx(0, abs=1e-12)


# Soft and hard


def test_a_soft_sample_has_a_true_gradient_and_it_is_not_grad_output() -> None:
    logits, noise = leaf(0.5, -0.3, 0.1), torch.tensor([0.2, 1.0, -0.4]).double()
    assert gradcheck(GumbelSoftmax.apply, (logits, noise, 0.5))
    g = torch.tensor([1.0, -2.0, 0.5]).double()
    (vjp,) = torch.autograd.grad(GumbelSoftmax.apply(logits, noise, 0.5), logits, g)
    assert not torch.allclose(vjp, g)
    assert vjp.sum().item() == pytest.approx(0, abs=1e-12)


def test_a_one_hot_in_the_softmax_jacobian_lets_nothing_back() -> None:
    y, g = torch.eye(3).double(), torch.tensor([1.0, -2.0, 0.5]).double()
    assert not (y * (g - (g * y).sum(-1, keepdim=True))).any()


def test_a_hard_gumbel_softmax_of_torch_is_exactly_one_hot_in_float32() -> None:
    torch.manual_seed(0)
    assert gumbel_softmax(torch.randn(10_000, 10), hard=True).unique().tolist() == [0, 1]


def test_a_hard_sample_is_tested_against_the_soft_one() -> None:
    logits, noise = leaf(0.5, -0.3, 0.1), torch.tensor([0.2, 1.0, -0.4]).double()
    inputs = (logits, noise, 0.5, True)
    assert diagnose(GumbelSoftmax, inputs, surrogate=soft_sample).ok
    assert not diagnose(GumbelSoftmax, inputs, surrogate=lambda logits, *_: 1 * logits).ok


def soft_sample(logits: Tensor, noise: Tensor, temperature: float, hard: bool) -> Tensor:
    return ((logits + noise) / temperature).softmax(-1)


# Bias


@pytest.mark.parametrize(("degree", "exact"), [(1, True), (2, True), (3, False)])
def test_reinmax_is_exact_to_second_order(degree: int, exact: bool) -> None:
    logits, levels = leaf(0.5, -0.3, 0.1), torch.tensor([0.0, 1.0, 3.0]).double()
    p, choices = logits.softmax(-1), torch.eye(3).double()

    def loss(y: Tensor) -> Tensor:
        return (y @ levels - 0.49) ** degree

    (true,) = torch.autograd.grad(sum(p[k] * loss(choices[k]) for k in range(3)), logits)
    drawn = [loss(ReinMax.apply(logits, 1e3 * choice)) for choice in choices]
    (mean,) = torch.autograd.grad(sum(p[k].item() * drawn[k] for k in range(3)), logits)
    assert torch.allclose(mean, true) == exact
