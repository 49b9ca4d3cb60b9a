"""What lesson 08 teaches of PyTorch, pinned: a release that changes a fact fails by its name."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from autograd_course.functions.attention import dropped

pytestmark = pytest.mark.slow


def drawn(count: int = 3, *shape: int) -> list[Tensor]:
    rng = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape or (1, 1, 3, 4), generator=rng, requires_grad=True) for _ in range(count)
    ]


SEEN = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
ADDED = torch.where(SEEN, 0.0, -math.inf)


# Rows that see nothing


def test_softmax_of_a_row_of_minus_infinity_is_nan() -> None:
    assert torch.softmax(torch.full((3,), -math.inf), -1).isnan().all()


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
@pytest.mark.parametrize("mask", [SEEN, ADDED], ids=["boolean", "additive"])
def test_the_built_in_gives_zeros_for_a_row_that_sees_nothing(
    mask: Tensor, backend: SDPBackend
) -> None:
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
def test_a_nan_repaired_behind_a_softmax_is_nan_again_in_backward(
    repair: Callable[[Tensor], Tensor],
) -> None:
    q, k, v = drawn(3, 3, 4)
    out = repair(torch.softmax(q @ k.mT + ADDED, -1)) @ v

    assert out.isfinite().all()
    assert grad(out.sum(), q)[0].isnan().any()


@pytest.mark.parametrize("repair", REPAIRS)
def test_a_mask_that_is_filled_in_cuts_that_nan_off(repair: Callable[[Tensor], Tensor]) -> None:
    q, k, v = drawn(3, 3, 4)
    out = repair(torch.softmax((q @ k.mT).masked_fill(~SEEN, -math.inf), -1)) @ v

    assert all(g.isfinite().all() for g in grad(out.sum(), (q, k, v)))


def test_a_row_hidden_by_a_large_number_sees_everything_alike() -> None:
    p = torch.softmax(torch.randn(5) - 1e9, -1)

    torch.testing.assert_close(p, torch.full((5,), 0.2))


def test_exp_overflows_in_float32_from_89_on() -> None:
    assert torch.tensor(88.0).exp().isfinite()
    assert torch.tensor(89.0).exp().isinf()


# Causal, grouped, twice


def test_causal_counts_from_the_first_query_and_the_first_key() -> None:
    k, v = torch.zeros(1, 1, 3, 4), torch.arange(3.0).view(1, 1, 3, 1)
    out = scaled_dot_product_attention(torch.zeros(1, 1, 1, 4), k, v, is_causal=True)

    assert out.item() == 0  # the mean of all, 1, if it were aligned at the end


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


def test_a_seed_restores_a_sequence_and_not_the_places_of_tiles() -> None:
    def pattern(order: list[tuple[int, int]]) -> Tensor:
        rng, found = torch.Generator().manual_seed(3), torch.zeros(4, 4)
        for i, j in order:
            found[i : i + 2, j : j + 2] = torch.rand(2, 2, generator=rng)
        return found

    by_rows = [(0, 0), (0, 2), (2, 0), (2, 2)]
    by_columns = [(0, 0), (2, 0), (0, 2), (2, 2)]
    assert torch.equal(pattern(by_rows), pattern(by_rows))
    assert not torch.equal(pattern(by_rows), pattern(by_columns))


def test_a_hash_of_the_place_gives_any_tile_alone() -> None:
    rows, columns = torch.arange(8), torch.arange(6)
    whole = dropped(rows, columns, 0.5, 3)

    assert torch.equal(whole[4:, 2:5], dropped(rows[4:], columns[2:5], 0.5, 3))


# The identity behind it all


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_delta_from_the_output_is_that_from_the_weights_with_dropout_too(p: float) -> None:
    scores, v, g = (x.detach().double() for x in drawn(3, 4, 4))
    weights = torch.softmax(scores, -1)
    pattern = (~dropped(torch.arange(4), torch.arange(4), p, 1)).double() / (1 - p)
    out, grad_weights = (weights * pattern) @ v, pattern * (g @ v.mT)

    torch.testing.assert_close((g * out).sum(-1), (weights * grad_weights).sum(-1))
