"""Facts about PyTorch in lesson 09. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made import keeping, leaf, make, sample
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import softplus

from autograd_course import diagnose
from autograd_course.functions import GradientReversal, LogSumExp

pytestmark = pytest.mark.slow

INF = math.inf


# log1pexp


def guarded(x: Tensor) -> Tensor:
    return torch.where(x > 20, x, torch.log1p(torch.exp(x)))


def protected(x: Tensor) -> Tensor:
    return torch.where(x > 20, x, torch.log1p(torch.exp(x.clamp(max=20))))


@pytest.mark.parametrize(
    ("f", "value", "gradient"),
    [
        pytest.param(lambda x: torch.log1p(torch.exp(x)), INF, math.nan, id="naive"),
        pytest.param(guarded, 200.0, math.nan, id="a where on the value"),
        pytest.param(protected, 200.0, 1.0, id="a clamp on the argument"),
        pytest.param(softplus, 200.0, 1.0, id="built in"),
    ],
)
def test_a_finite_log1pexp_may_have_a_nan_gradient(
    f: Callable[[Tensor], Tensor], value: float, gradient: float
) -> None:
    x = torch.tensor(200.0, requires_grad=True)
    y = f(x)
    (found,) = torch.autograd.grad(y, x)
    assert (y.item(), found.item()) == pytest.approx((value, gradient), nan_ok=True)


# Log-sum-exp


def max_trick(x: Tensor) -> Tensor:
    m = x.amax(-1, keepdim=True)
    return (m + (x - m).exp().sum(-1, keepdim=True).log()).squeeze(-1)


def test_the_max_trick_gives_nan_on_an_empty_row_where_torch_gives_minus_infinity() -> None:
    empty = torch.full((2,), -INF)
    assert max_trick(empty).isnan()
    assert torch.logsumexp(empty, -1) == -INF
    assert LogSumExp.apply(empty) == -INF


def test_the_built_in_logsumexp_has_a_nan_gradient_on_an_empty_row_even_if_unused() -> None:
    x = torch.tensor([[1.0, 2.0], [-INF, -INF]], requires_grad=True)
    y = torch.logsumexp(x, -1)
    (built_in,) = torch.autograd.grad(y[y > -INF].sum(), x)
    assert built_in[1].isnan().all()
    y = LogSumExp.apply(x)
    (ours,) = torch.autograd.grad(y[y > -INF].sum(), x)
    assert ours[1].tolist() == [0.0, 0.0]
    assert torch.allclose(ours[0], built_in[0])


def test_a_saved_intermediate_passes_gradcheck_and_has_no_second_derivative() -> None:
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(torch.softmax(x, -1))
        return torch.logsumexp(x, -1)

    made = make(forward, lambda ctx, g: ctx.saved_tensors[0] * g.unsqueeze(-1))
    x = sample(3)
    assert gradcheck(made.apply, x)
    assert not gradgradcheck(made.apply, x, raise_exception=False)
    assert not torch.autograd.functional.hessian(made.apply, x.detach()).any()


# A test for linear functions


@pytest.mark.parametrize("backward_is_transposed", [True, False])
def test_one_forward_and_one_backward_test_a_linear_function(backward_is_transposed: bool) -> None:
    matrix = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    used = matrix if backward_is_transposed else matrix.flip(0)
    function = make(lambda ctx, x: matrix @ x, lambda ctx, g: used.mT @ g)
    x, g = sample(5), torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    y = function.apply(x)
    (gradient,) = torch.autograd.grad(y, x, g)

    assert torch.allclose((y * g).sum(), (x * gradient).sum()) is backward_is_transposed


# Complex numbers


@pytest.mark.parametrize("conjugated", [True, False])
def test_a_complex_product_descends_with_the_conjugate_only(conjugated: bool) -> None:
    b = torch.tensor(0.6 + 0.8j, dtype=torch.complex128)
    factor = b.conj() if conjugated else b
    function = make(lambda ctx, a: a * b, lambda ctx, g: g * factor)
    a = torch.zeros((), dtype=torch.complex128, requires_grad=True)
    before = (function.apply(a) - 1).abs().square()
    (gradient,) = torch.autograd.grad(before, a)
    after = (function.apply(a - 0.1 * gradient) - 1).abs().square()

    assert bool(after < before) is conjugated


def test_the_gradient_of_a_complex_number_points_uphill() -> None:
    z = torch.tensor(3 + 4j, requires_grad=True)
    z.abs().square().backward()
    assert z.grad.item() == 6 + 8j  # ∂L/∂Re z + i ∂L/∂Im z, for L = |z|²


def test_a_complex_gradient_for_a_real_input_is_refused_without_naming_it() -> None:
    function = keeping(lambda z, a: z * a, lambda g, z, a: (g * a, g * z.conj()))
    z, gain = torch.tensor(3 + 4j, requires_grad=True), leaf(2.0)
    with pytest.raises(RuntimeError, match="input_is_complex == grad_is_complex"):
        function.apply(z, gain).abs().sum().backward()


# Custom gradients


def lower_bound(ctx: Any, x: Tensor, bound: float) -> Tensor:
    ctx.save_for_backward(x >= bound)
    return x.clamp(min=bound)


def test_gradcheck_passes_a_bound_that_asks_for_the_sign_of_g() -> None:
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return torch.where(ctx.saved_tensors[0] | (g < 0), g, 0), None

    made, inputs = make(lower_bound, backward), (leaf(-1.0, 0.3, 2.0), 0.1)
    assert gradcheck(made.apply, inputs)
    rule = "nonlinear-in-grad-output"
    assert diagnose(made, inputs).findings[0].rule == rule
    assert diagnose(made, inputs, intentional=(rule,)).findings == ()


def test_gradient_reversal_fails_gradcheck_by_design() -> None:
    x = sample(3)
    assert not gradcheck(GradientReversal.apply, (x, 1.0), raise_exception=False)
    assert diagnose(GradientReversal, (x, 1.0), intentional=("flipped-sign",)).findings == ()


def test_returning_the_input_makes_a_view_that_cannot_be_changed_in_place() -> None:
    x = leaf(1.0, 2.0)
    y = make(lambda ctx, x: x, lambda ctx, g: -g).apply(x)
    assert y._is_view()
    assert y.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        y.mul_(2)


def test_a_hook_runs_once_on_the_sum_over_all_uses_and_not_after_its_removal() -> None:
    seen: list[list[float]] = []
    x = leaf(3.0)
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    for _ in range(2):
        torch.autograd.grad((x**2).sum() + x.sum(), x)
        handle.remove()
    assert seen == [[7.0]]


@pytest.mark.parametrize(
    ("mask", "spared"),
    [
        (lambda s, hidden: s + torch.where(hidden, -torch.inf, 0.0), False),
        (lambda s, hidden: s.masked_fill(hidden, -torch.inf), True),
        (lambda s, hidden: torch.where(hidden, -torch.inf, s), True),
    ],
    ids=["added", "masked_fill", "where"],
)
def test_an_empty_rows_nan_reaches_the_weight_through_an_added_mask_alone(mask, spared) -> None:
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    hidden = torch.tensor([[False, False], [True, True]])
    values = torch.logsumexp(mask(torch.ones(2, 1) * weight, hidden), -1)
    (gradient,) = torch.autograd.grad(values[values > -torch.inf].sum(), weight)

    assert bool(gradient.isfinite().all()) is spared


def test_a_view_of_what_forward_made_cannot_be_changed_in_place() -> None:
    summed = keeping(
        lambda x: x.square().sum(-1, keepdim=True).squeeze(-1),
        lambda g, x: 2 * x * g.unsqueeze(-1),
    )
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        summed.apply(x).relu_()
    x.square().sum(-1, keepdim=True).squeeze(-1).relu_()  # plain operations allow it
