"""Facts about PyTorch in lesson 08. If a release changes a fact, the test named after it fails."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from autograd_course.functions import ScaledDotProductAttention, TiledAttention
from autograd_course.functions.attention import dropped
from autograd_course.lesson import kept_bytes, peak_bytes

pytestmark = pytest.mark.slow


def drawn(count: int = 3, *shape: int) -> list[Tensor]:
    rng = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape or (1, 1, 3, 4), generator=rng, requires_grad=True) for _ in range(count)
    ]


SEEN = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
ADDED = torch.where(SEEN, 0.0, -math.inf)


# Fully masked rows


def test_softmax_of_a_row_of_minus_infinity_is_nan() -> None:
    assert torch.softmax(torch.full((3,), -math.inf), -1).isnan().all()


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
@pytest.mark.parametrize("mask", [SEEN, ADDED], ids=["boolean", "additive"])
def test_the_built_in_gives_zeros_for_a_fully_masked_row(mask: Tensor, backend: SDPBackend) -> None:
    inputs = drawn()
    with sdpa_kernel(backend):
        out = scaled_dot_product_attention(*inputs, attn_mask=mask)
        grads = grad(out.sum(), inputs)

    assert not out[0, 0, 1].any()
    assert not grads[0][0, 0, 1].any()
    assert all(g.isfinite().all() for g in grads)


REPAIRS = [
    pytest.param(lambda p: p.nan_to_num(0), id="nan_to_num"),
    pytest.param(lambda p: torch.where(p.isnan(), 0, p), id="where"),
    pytest.param(lambda p: p.masked_fill(p.isnan(), 0), id="masked_fill"),
]


@pytest.mark.parametrize("repair", REPAIRS)
def test_a_nan_replaced_after_a_softmax_is_nan_again_in_backward(
    repair: Callable[[Tensor], Tensor],
) -> None:
    q, k, v = drawn(3, 3, 4)
    out = repair(torch.softmax(q @ k.mT + ADDED, -1)) @ v

    assert out.isfinite().all()
    assert grad(out.sum(), q)[0].isnan().any()


@pytest.mark.parametrize("repair", REPAIRS)
def test_masked_fill_before_the_softmax_stops_this_nan(repair: Callable[[Tensor], Tensor]) -> None:
    q, k, v = drawn(3, 3, 4)
    out = repair(torch.softmax((q @ k.mT).masked_fill(~SEEN, -math.inf), -1)) @ v

    assert all(g.isfinite().all() for g in grad(out.sum(), (q, k, v)))


def test_a_row_masked_by_a_large_negative_number_has_uniform_weights() -> None:
    p = torch.softmax(torch.randn(5) - 1e9, -1)

    torch.testing.assert_close(p, torch.full((5,), 0.2))


def test_exp_overflows_in_float32_from_89_on() -> None:
    assert torch.tensor(88.0).exp().isfinite()
    assert torch.tensor(89.0).exp().isinf()


# Causal, grouped, twice


def test_causal_counts_from_the_first_query_and_the_first_key() -> None:
    k, v = torch.zeros(1, 1, 3, 4), torch.arange(3.0).view(1, 1, 3, 1)
    out = scaled_dot_product_attention(torch.zeros(1, 1, 1, 4), k, v, is_causal=True)

    assert out.item() == 0  # 1, the mean of all, if the mask were aligned at the end


def test_grouped_queries_must_be_asked_for_and_neighbors_share() -> None:
    q, k, v = (torch.randn(1, heads, 3, 4) for heads in (4, 2, 2))
    with pytest.raises(RuntimeError, match="must match the size"):
        scaled_dot_product_attention(q, k, v)

    grouped = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    repeated = [x.repeat_interleave(2, 1) for x in (k, v)]
    torch.testing.assert_close(grouped, scaled_dot_product_attention(q, *repeated))


def test_a_fused_kernel_refuses_a_second_derivative_and_plain_operations_have_one() -> None:
    def second(backend: SDPBackend) -> Tensor:
        q, k, v = drawn()
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(q, k, v)
            (first,) = grad(out.square().sum(), q, create_graph=True)
            return grad(first.sum(), q)[0]

    with pytest.raises(RuntimeError, match=r"derivative for aten::.* is not implemented"):
        second(SDPBackend.FLASH_ATTENTION)
    assert second(SDPBackend.MATH).any()


# Dropout


def test_a_seed_restores_a_sequence_and_not_the_pattern_of_tiles_in_another_order() -> None:
    def pattern(order: list[tuple[int, int]]) -> Tensor:
        rng, found = torch.Generator().manual_seed(3), torch.zeros(4, 4)
        for i, j in order:
            found[i : i + 2, j : j + 2] = torch.rand(2, 2, generator=rng)
        return found

    by_rows = [(0, 0), (0, 2), (2, 0), (2, 2)]
    by_columns = [(0, 0), (2, 0), (0, 2), (2, 2)]
    assert torch.equal(pattern(by_rows), pattern(by_rows))
    assert not torch.equal(pattern(by_rows), pattern(by_columns))


def test_a_hash_of_the_position_gives_each_tile_alone() -> None:
    rows, columns = torch.arange(8), torch.arange(6)
    whole = dropped(rows, columns, 0.5, 3)

    assert torch.equal(whole[4:, 2:5], dropped(rows[4:], columns[2:5], 0.5, 3))


# Memory and cost


def composed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def lean(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ScaledDotProductAttention.apply(q, k, v)[0]


def tiles(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return TiledAttention.apply(q, k, v, None, False, None, 0.0, 0, (64, 64))[0]


@pytest.mark.parametrize(("attend", "count"), [(composed, 6), (lean, 7)])
def test_recomputing_the_weights_costs_one_more_matrix_product(
    attend: Callable[..., Tensor], count: int
) -> None:
    with FlopCounterMode(display=False) as counted:
        attend(*drawn(3, 64, 16)).sum().backward()

    assert counted.get_total_flops() == count * 2 * 64 * 64 * 16


def test_saving_no_weights_makes_memory_linear_in_the_length() -> None:
    saved = {f: [kept_bytes(f, *drawn(3, n, 16)) for n in (64, 128)] for f in (composed, lean)}

    assert saved[composed] == [4 * 64 * 64, 4 * 128 * 128]
    assert saved[lean] == [4 * 64 * 17, 4 * 128 * 17]


def test_saving_no_weights_does_not_lower_the_peak_and_tiles_do() -> None:
    peaks = {f: peak_bytes(f, *drawn(3, 512, 16)) for f in (composed, lean, tiles)}

    assert peaks[lean] > 0.8 * peaks[composed]
    assert peaks[tiles] < 0.2 * peaks[composed]


# The formula for D


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_the_formula_for_d_without_the_weights_is_also_right_with_dropout(p: float) -> None:
    scores, v, g = (x.detach().double() for x in drawn(3, 4, 4))
    weights = torch.softmax(scores, -1)
    pattern = (~dropped(torch.arange(4), torch.arange(4), p, 1)).double() / (1 - p)
    out, grad_weights = (weights * pattern) @ v, pattern * (g @ v.mT)

    torch.testing.assert_close((g * out).sum(-1), (weights * grad_weights).sum(-1))
