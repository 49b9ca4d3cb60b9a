"""``attention`` and ``tiled_attention`` match the built-in in all its features and gradients."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attentions import grouped, holes, qkv, seen, tensors
from sampling import first_rows
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograd_course import diagnose
from autograd_course.functions.attention import (
    TiledAttention,
    attention,
    calls,
    dropped,
    tiled_attention,
)
from autograd_course.functions.attention.dropout import threshold

pytestmark = pytest.mark.slow

Call = Callable[..., Tensor]
CALLS = pytest.mark.parametrize("call", [attention, tiled_attention])


def built_in(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, causal: bool = False) -> Tensor:
    mask = seen(q, k, mask, causal)
    shared = q.dim() > 2 and q.shape[-3] > k.shape[-3]
    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=shared)


def same(call: Call, inputs: list[Tensor], mask: Any = None, causal: bool = False) -> None:
    """Compare the value and the gradients with those of the built-in."""
    out, expected = call(*inputs, mask=mask, causal=causal), built_in(*inputs, mask, causal)
    (arrives,) = tensors(tuple(out.shape), seed=5)
    arrives = arrives.detach().to(out.dtype)

    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(
        torch.autograd.grad(out, inputs, arrives), torch.autograd.grad(expected, inputs, arrives)
    )


# Shapes


@CALLS
@pytest.mark.parametrize("shared", [1, 2, 3, 6])
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries_share_keys(call: Call, shared: int, causal: bool) -> None:
    same(call, grouped(shared=shared), causal=causal)
    same(call, [x.detach()[0].requires_grad_() for x in grouped(shared=shared)], causal=causal)


@CALLS
@pytest.mark.parametrize("lead", [(), (1,), (6,), (2, 1), (2, 6)])
def test_a_mask_of_each_head_of_a_group(call: Call, lead: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(2)
    mask = torch.rand(*lead, 5, 7, generator=generator) > 0.4

    same(call, grouped(), mask)
    same(call, grouped(), torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -2.0))


@CALLS
@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((1, 3, 5, 3), (2, 3, 7, 3), (2, 3, 7, 2)),
        ((2, 3, 5, 3), (1, 3, 7, 3), (2, 1, 7, 2)),
        ((2, 1, 5, 3), (2, 3, 7, 3), (2, 3, 7, 2)),
        ((4, 2, 3, 5, 3), (2, 3, 7, 3), (2, 3, 7, 2)),
        ((5, 3), (3, 7, 3), (3, 7, 2)),
        ((1, 5, 3), (3, 7, 3), (1, 7, 2)),
        ((6, 5, 3), (1, 7, 3), (3, 7, 2)),
    ],
)
def test_leading_axes_broadcast(call: Call, q: Any, k: Any, v: Any) -> None:
    same(call, tensors(q, k, v))


@CALLS
@pytest.mark.parametrize("flat", [0, 1, 2])
def test_a_vector_is_refused_whatever_it_is_called_with(call: Call, flat: int) -> None:
    inputs = [x[0, 0] if i == flat else x for i, x in enumerate(qkv(1, 1))]

    with pytest.raises(ValueError, match=r"needs q \(N, E\)|every key needs one value"):
        call(*inputs)


@CALLS
def test_the_scale_is_the_one_given(call: Call) -> None:
    inputs = qkv()
    expected = F.scaled_dot_product_attention(*inputs, scale=0.3)

    torch.testing.assert_close(call(*inputs, scale=0.3), expected)


@CALLS
def test_keys_of_no_batch_serve_all(call: Call) -> None:
    q, k, v = tensors((2, 3, 5, 3), (7, 3), (7, 2))
    whole = [x.detach().expand(2, 3, -1, -1).requires_grad_() for x in (k, v)]
    found = torch.autograd.grad(call(q, k, v).square().sum(), (q, k, v))
    q_, k_, v_ = torch.autograd.grad(built_in(q, *whole).square().sum(), (q, *whole))

    torch.testing.assert_close(found, (q_, k_.sum((0, 1)), v_.sum((0, 1))))


@CALLS
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("lead", [(2, 3), (0, 3), (2, 0), ()])
def test_nothing_comes_of_nothing(call: Call, sizes: Any, lead: Any) -> None:
    inputs = qkv(*sizes, lead=lead)
    out = call(*inputs)

    assert out.shape == (*lead, sizes[0], 2)
    assert out.count_nonzero() == 0
    found = torch.autograd.grad(out.sum(), inputs)
    assert all(
        x.shape == y.shape and not x.count_nonzero() for x, y in zip(found, inputs, strict=True)
    )


@CALLS
def test_any_strides(call: Call) -> None:
    q = tensors((5, 2, 3, 4))[0].permute(1, 2, 0, 3)
    k = tensors((4, 7, 3, 2), seed=1)[0].permute(3, 2, 1, 0)
    v = tensors((2, 3, 14, 2), seed=2)[0][..., ::2, :]
    same(call, [q, k, v])
    same(call, [q, k, v], holes().t().contiguous().t(), True)


# Dtypes and backends


@CALLS
def test_single_precision(call: Call) -> None:
    same(call, [x.detach().float().requires_grad_() for x in qkv(40, 50, 8, 8, (2, 3))], None, True)


@CALLS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mean", [0, 1])  # with 1, the difference of large numbers in dP - D
def test_16_bits_round_the_result_only(call: Call, dtype: torch.dtype, mean: int) -> None:
    leaves = [(x.detach() + mean).to(dtype) for x in qkv(64, 600, 8, 64, (2, 3))]
    inputs = [x.requires_grad_() for x in leaves]
    exact = [x.detach().double().requires_grad_() for x in inputs]
    arrives = (tensors((2, 3, 64, 64), seed=5)[0].detach() + mean).to(dtype)
    out, truth = call(*inputs), built_in(*exact)
    found = torch.autograd.grad(out, inputs, arrives)
    expected = torch.autograd.grad(truth, exact, arrives.double())

    unit = torch.finfo(dtype).eps
    for one, other in zip((out, *found), (truth, *expected), strict=True):
        assert one.dtype == dtype
        assert (one - other).abs().max() < 2 * unit * other.abs().max()


@CALLS
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
@pytest.mark.parametrize("causal", [False, True])
def test_every_backend_of_the_cpu_says_the_same(call: Call, backend: Any, causal: bool) -> None:
    inputs = [x.detach().float().requires_grad_() for x in qkv(33, 33, 8, 8, (2, 3))]
    with sdpa_kernel(backend):
        expected = F.scaled_dot_product_attention(*inputs, is_causal=causal)
        truth = torch.autograd.grad(expected.square().sum(), inputs)
    out = call(*inputs, causal=causal)

    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(torch.autograd.grad(out.square().sum(), inputs), truth)


def test_causal_counts_from_the_first_query_and_key_as_the_built_in_does() -> None:
    q, k, v = qkv(3, 6)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)

    for call in (attention, tiled_attention):
        torch.testing.assert_close(call(q, k, v, causal=True), expected)


def test_the_built_in_gives_zeros_to_a_query_that_sees_no_key() -> None:
    q, k, v = qkv()

    assert F.scaled_dot_product_attention(q, k, v, holes())[:, 2].count_nonzero() == 0


# Higher derivatives


@CALLS
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries_are_twice_differentiable(call: Call, causal: bool) -> None:
    inputs = [x.detach()[:1].requires_grad_() for x in grouped(3, 4, 4, 2)]

    assert gradgradcheck(lambda *x: call(*x, causal=causal), inputs)


@CALLS
def test_it_is_twice_differentiable_with_dropout_and_a_bias(call: Call) -> None:
    (bias,) = tensors((2, 1, 4), seed=7)
    inputs = [*qkv(3, 4), bias]

    def dropping(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return call(q, k, v, mask=bias, dropout_p=0.4, seed=3)

    assert gradcheck(dropping, inputs)
    assert gradgradcheck(dropping, inputs)


@CALLS
@pytest.mark.parametrize("asking", ["q", "k", "v", "qkv", "b", "qkvb"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_are_those_of_plain_operations_whichever_input_asks(
    call: Call, asking: str, order: int
) -> None:
    def derivative(fn: Call) -> tuple[Tensor, ...]:
        given = dict(zip("qkvb", (*qkv(4, 5, lead=()), *tensors((4, 5), seed=2)), strict=True))
        if "b" not in asking:
            del given["b"]
        inputs = [x.detach().requires_grad_(name in asking) for name, x in given.items()]
        asked = [x for x in inputs if x.requires_grad]
        value = fn(*inputs).pow(2).sum()
        for _ in range(order - 1):
            grads = torch.autograd.grad(value, asked, create_graph=True)
            value = sum(x.pow(2).sum() for x in grads)
        return torch.autograd.grad(value, asked)

    def plain(q: Tensor, k: Tensor, v: Tensor, bias: Any = 0) -> Tensor:
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, -1) @ v

    found = derivative(lambda q, k, v, bias=None: call(q, k, v, mask=bias))
    torch.testing.assert_close(found, derivative(plain))


def test_the_built_ins_fused_kernel_has_no_second_derivative() -> None:
    inputs = [x.detach().float().requires_grad_() for x in qkv(4, 4, 2, 2, (1, 1))]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = F.scaled_dot_product_attention(*inputs)
    grads = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)

    with pytest.raises(RuntimeError, match="derivative for aten::_scaled_dot_product_flash"):
        torch.autograd.grad(grads[0].sum(), inputs)


# Dropout


@CALLS
@pytest.mark.parametrize("inputs", [qkv(), grouped()], ids=["heads", "groups"])
def test_dropout_is_that_of_the_weights(call: Call, inputs: list[Tensor]) -> None:
    q, k, v = inputs
    rows = torch.arange(q.shape[:-1].numel()).view(q.shape[:-1])
    gone = dropped(rows, torch.arange(k.shape[-2]), 0.3, 11)
    keys, values = (x.repeat_interleave(q.shape[-3] // k.shape[-3], -3) for x in (k, v))
    weights = torch.softmax(q @ keys.mT / 3**0.5, -1).masked_fill(gone, 0) / 0.7

    out, expected = call(q, k, v, dropout_p=0.3, seed=11), weights @ values
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(out.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    )
    assert gone.any()
    assert not gone.all()


@CALLS
def test_a_seed_is_drawn_from_pytorchs_generator(call: Call) -> None:
    def run() -> Tensor:
        return call(*qkv(), dropout_p=0.5)

    torch.manual_seed(0)
    first, second = run(), run()
    torch.manual_seed(0)

    assert torch.equal(run(), first)
    assert not torch.equal(first, second)
    state = torch.get_rng_state()
    call(*qkv())
    call(*qkv(), dropout_p=0.5, seed=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_hundred_calls_draw_a_hundred_seeds() -> None:
    assert len({calls.drawn(0.5) for _ in range(100)}) == 100


def test_a_tile_of_the_pattern_can_be_made_alone() -> None:
    rows, columns = torch.arange(60).view(3, 20), torch.arange(50)
    all_of_it = dropped(rows, columns, 0.2, 5)

    assert torch.equal(dropped(rows[1:, 3:9], columns[7:], 0.2, 5), all_of_it[1:, 3:9, 7:])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_p_goes_from_every_row_and_column_independently(p: float) -> None:
    n = 1000
    gone = dropped(torch.arange(n), torch.arange(n), p, 2024).double()
    error = (p * (1 - p) / n) ** 0.5

    assert abs(gone.mean() - p) < 5 * error / n**0.5
    for axis in (0, 1):
        assert gone.mean(axis).sub(p).abs().max() < 5 * error
        assert gone.mean(axis).std() == pytest.approx(error, rel=0.1)
    centered = gone - p
    for one, other in ((centered, centered.T), (centered.T, centered)):
        between = (one @ other) / (p * (1 - p) * n)
        assert between.fill_diagonal_(0).abs().max() < 6 / n**0.5


@pytest.mark.parametrize("others", [(0, 2), (1, -1), (1, 2**40), (2**62, 2**62 + 1)])
def test_seeds_differ(others: tuple[int, int]) -> None:
    one, other = (dropped(torch.arange(99), torch.arange(99), 0.5, seed) for seed in others)

    assert 0.45 < (one == other).double().mean() < 0.55


def word_by_hand(row: int, column: int, seed: int) -> int:
    def mixed(word: int) -> int:
        word = (word ^ word >> 16) * 0x21F0AAAD % 2**32
        word = (word ^ word >> 15) * 0x735A2D97 % 2**32
        return word ^ word >> 15

    def word_of(number: int, key: int) -> int:
        return mixed(mixed(number % 2**32 ^ key % 2**32) ^ number >> 32)

    low, high = seed % 2**32, seed // 2**32 % 2**32
    row_word = word_of(row, mixed(low) ^ mixed(high))
    pair = (row_word ^ word_of(column, mixed(2**32 - 1 - low) + mixed(high))) * 0x21F0AAAD % 2**32
    word = (pair ^ pair >> 15) * 0x735A2D97 % 2**32
    return (word + 2**31) % 2**32


@pytest.mark.parametrize("seed", [-42, 3 * 2**32 + 5])
def test_the_pattern_is_the_same_everywhere(seed: int) -> None:
    """The pattern needs only integers, so this test computes it with Python's, which never
    overflow.
    """
    rows = [0, 1, 77, 2**33]
    pattern = dropped(torch.tensor(rows), torch.arange(40), 0.3, seed)

    assert pattern.tolist() == [
        [word_by_hand(row, column, seed) < 0.3 * 2**32 for column in range(40)] for row in rows
    ]


def test_a_weight_goes_whose_word_is_below_p() -> None:
    word = word_by_hand(3, 5, 0)
    p = word / 2**32  # exact, because a double has 53 bits

    assert not dropped(torch.tensor([3]), torch.tensor([5]), p, 0).any()
    assert dropped(torch.tensor([3]), torch.tensor([5]), p + 2**-32, 0).all()


@pytest.mark.parametrize(("p", "word"), [(0, -(2**31)), (0.5, 0), (1 - 2**-40, 2**31 - 1)])
def test_what_words_are_compared_with_fits_into_32_bits_too(p: float, word: int) -> None:
    assert threshold(p) == word


# The kernels


def test_where_the_kernels_serve_they_get_the_whole_call(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Tensor] = []

    class Kernels:
        @staticmethod
        def apply(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
            served.append(q)
            return TiledAttention.apply(q, k, v, None, *rest)

    options = {"causal": True, "scale": 0.3, "dropout_p": 0.5, "seed": 2}
    expected = tiled_attention(*grouped(), **options)
    monkeypatch.setattr(calls, "usable", lambda q, v, mask: mask is None)
    monkeypatch.setattr(calls, "TritonAttention", Kernels)

    assert torch.equal(tiled_attention(*grouped(), **options), expected)
    assert len(served) == 1
    tiled_attention(*grouped(), mask=torch.ones(5, 7, dtype=torch.bool))
    assert len(served) == 1


# The doctor


@pytest.mark.parametrize(
    ("inputs", "options"),
    first_rows(
        [
            (grouped(), {}),
            (qkv(), {"mask": holes()}),
            (grouped(), {"causal": True}),
            (qkv(), {"dropout_p": 0.3, "seed": 1}),
        ],
        most=2,
        unpack=True,
    ),
    ids=["groups", "holes", "groups-causal", "dropout"],
)
@CALLS
def test_the_doctor_finds_nothing(call: Call, inputs: list[Tensor], options: Any) -> None:
    found = diagnose(lambda *x: call(*x, **options), tuple(inputs), double_backward=True)

    assert [finding.rule for finding in found.findings if finding.severity == "error"] == []
