"""Facts about PyTorch in lesson 03. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
from made import CLAMP_AT_BOUNDS, keeping, leaf, make, sample
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import leaky_relu, max_pool2d

from autograd_course import diagnose
from autograd_course.functions import Max, Swish
from autograd_course.functions.shapes import sum_to_shape

pytestmark = pytest.mark.slow

INF = math.inf


# Elementwise functions


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        pytest.param(torch.relu, 0.0, id="relu has 0"),
        pytest.param(lambda x: x.clamp(min=0), CLAMP_AT_BOUNDS, id="clamp"),
        pytest.param(lambda x: torch.maximum(x, torch.zeros_like(x)), 0.5, id="maximum has a half"),
        pytest.param(lambda x: leaky_relu(x, 0.25), 0.25, id="leaky_relu has the lower slope"),
        pytest.param(torch.abs, 0.0, id="abs has 0"),
    ],
)
def test_kink_conventions_at_zero(f: Callable[[Tensor], Tensor], slope: float) -> None:
    x = leaf(0.0)
    assert torch.autograd.grad(f(x).sum(), x)[0].tolist() == [slope]


def test_two_inputs_of_swish_have_one_output_and_slopes_of_opposite_sign() -> None:
    x = torch.tensor([-2.396205, -0.544982], dtype=torch.float64, requires_grad=True)
    y = Swish.apply(x)
    slopes = torch.autograd.grad(y.sum(), x)[0]
    assert y.tolist() == pytest.approx([-0.2, -0.2], abs=1e-4)
    assert slopes.tolist() == pytest.approx([-0.1, 0.24], abs=1e-2)


# Broadcasting

unreduced = keeping(lambda a, b: a * b, lambda g, a, b: (g * b, g * a))
scale_rows = keeping(lambda x, s: x * s[:, None], lambda g, x, s: (g * s[:, None], g * x))


def test_a_forgotten_sum_over_a_broadcast_does_not_crash_and_passes_gradcheck() -> None:
    a, b = sample(2, 3), sample(3)
    y = unreduced.apply(a, b)
    assert unreduced.backward(y.grad_fn, torch.ones_like(y))[1].shape == (2, 3)
    y.sum().backward()
    assert torch.allclose(b.grad, a.sum(0))
    assert gradcheck(unreduced.apply, (a, b))


def test_a_hook_on_the_node_sees_the_shape_after_the_engine_has_summed() -> None:
    a, b = sample(2, 3), sample(3)
    seen: list[torch.Size] = []
    y = unreduced.apply(a, b)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[1].shape))
    y.sum().backward()
    assert seen == [(3,)]


def test_the_engine_sums_the_wrong_axis_where_forward_repeated_another_one() -> None:
    x, s = sample(3, 3), sample(3)
    scale_rows.apply(x, s).sum().backward()
    assert torch.allclose(s.grad, x.sum(0))
    assert not torch.allclose(s.grad, x.sum(1))
    with pytest.raises(RuntimeError, match="invalid gradient at index 1"):
        scale_rows.apply(sample(2, 3), sample(2)).sum().backward()


@pytest.mark.parametrize(("rows", "rule"), [(2, "gradient-shape"), (3, "unreduced-broadcast")])
def test_diagnose_calls_a_sum_over_the_wrong_axis_an_error(rows: int, rule: str) -> None:
    (first, *_) = diagnose(scale_rows, (sample(rows, 3), sample(rows))).findings
    assert (first.rule, first.severity) == (rule, "error")


def test_a_gradient_of_fewer_axes_than_its_input_is_refused() -> None:
    wrong = keeping(lambda a: a * torch.ones(2, 4, 3), lambda g, a: g.sum((0, 2)))
    with pytest.raises(RuntimeError, match="invalid gradient at index 0"):
        wrong.apply(torch.ones(4, 1, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("reduce", [torch.sum, torch.mean, torch.amax])
def test_an_empty_list_of_axes_reduces_everything(reduce: Callable[..., Tensor]) -> None:
    assert reduce(torch.ones(2, 3), dim=()).shape == ()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (1, 1), (), (2, 3)])
def test_sum_to_shape_is_pytorchs_sum_to_size(shape: tuple[int, ...]) -> None:
    g = sample(4, 2, 3)
    assert torch.equal(sum_to_shape(g, shape), g.sum_to_size(shape))


# Matrix products


@pytest.mark.parametrize(("target", "only"), [("A", ["G Bᵀ"]), ("B", ["Aᵀ G"])])
def test_the_shapes_of_three_matrices_allow_one_product_for_each_gradient(
    target: str, only: list[str]
) -> None:
    given = {"G": sample(2, 5), "A": sample(2, 3), "B": sample(3, 5)}
    factors = given | {f"{name}ᵀ": matrix.T for name, matrix in given.items()}
    fitting = [
        f"{left} {right}"
        for (left, a), (right, b) in permutations(factors.items(), 2)
        if left[0] != right[0] and (len(a), b.shape[1]) == given[target].shape
        if a.shape[1] == len(b)
    ]
    assert fitting == only


# Reductions


@pytest.mark.parametrize(
    ("f", "shares"),
    [
        pytest.param(lambda x: x.amax(0), [0.5, 0.5], id="amax shares"),
        pytest.param(lambda x: x.max(), [0.5, 0.5], id="max without dim shares"),
        pytest.param(lambda x: x.max(0).values, [0.0, 1.0], id="max with dim gives all to one"),
        pytest.param(lambda x: x.topk(1).values.sum(), [0.0, 1.0], id="topk gives all to one"),
        pytest.param(lambda x: Max.apply(x, 0), [0.5, 0.5], id="the course's Max shares"),
    ],
)
def test_tie_conventions(f: Callable[[Tensor], Tensor], shares: list[float]) -> None:
    x = leaf(3.0, 1.0, 3.0)
    (g,) = torch.autograd.grad(f(x), x)
    assert (sorted(g[[0, 2]].tolist()), g[1].item()) == (shares, 0.0)


def test_one_window_in_sixteen_is_a_tie_after_a_relu() -> None:
    rng = torch.Generator().manual_seed(0)
    pooled = max_pool2d(torch.relu(torch.randn(1, 1, 400, 400, generator=rng)), 2)
    assert (pooled == 0).float().mean().item() == pytest.approx(1 / 16, abs=0.005)


@pytest.mark.parametrize(("size", "passes"), [(5, False), (2000, True)])
def test_gradcheck_cannot_tell_n_from_n_minus_1_in_large_inputs(size: int, passes: bool) -> None:
    wrong = keeping(lambda x: x.var(), lambda g, x: g * 2 * (x - x.mean()) / len(x))
    x = torch.linspace(-1, 1, size, dtype=torch.float64, requires_grad=True)
    assert gradcheck(wrong.apply, x, raise_exception=False) is passes
    assert diagnose(wrong, (x.detach(),)).findings[0].rule == "constant-factor"


# Indices and dtypes


def overwriting(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
    table = g.new_zeros(4)
    table[ctx.saved_tensors[0]] = g
    return table, None


def test_an_overwriting_scatter_passes_gradcheck_until_an_index_repeats() -> None:
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        return table[index]

    made = make(forward, overwriting)
    unique, repeated = torch.tensor([2, 0, 3]), torch.tensor([2, 0, 2])
    assert gradcheck(made.apply, (sample(4), unique))
    assert not gradcheck(made.apply, (sample(4), repeated), raise_exception=False)
    assert diagnose(made, (sample(4), repeated)).findings[0].rule == "duplicate-index"


def test_plus_equals_keeps_one_of_the_gradients_of_a_repeated_index() -> None:
    index, g = torch.tensor([2, 0, 2]), torch.tensor([1.0, 10.0, 100.0])
    kept = torch.zeros(4)
    kept[index] += g

    assert kept[2].item() in (1.0, 100.0)
    assert torch.zeros(4).index_add(0, index, g).tolist() == [10.0, 0.0, 101.0, 0.0]


def test_zeros_without_a_dtype_do_not_take_float64() -> None:
    g, index = torch.ones(2, dtype=torch.float64), torch.tensor([0, 1])
    with pytest.raises(RuntimeError, match="same scalar type"):
        torch.zeros(4).index_add(0, index, g)
    with pytest.raises(RuntimeError, match="dtypes match"):
        torch.zeros(4)[index] = g


def test_a_float32_gradient_for_a_float64_input_is_cast_silently() -> None:
    made = keeping(lambda x: x * 2, lambda g, x: torch.zeros(x.shape) + 2)
    x = sample(3)
    made.apply(x).sum().backward()
    assert x.grad.dtype == torch.float64
