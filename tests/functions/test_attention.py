"""Whole and tiled attention have the built-in's values and gradients, and no large tensors."""

import gc
import math
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attentions import Attention, filled, grouped, holes, qkv, reference, tensors, tiled, whole
from sampling import first_rows
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from autograd_course import diagnose
from autograd_course.functions.attention import ScaledDotProductAttention, Tile, TiledAttention
from autograd_course.functions.attention.tiles import unexpanded

pytestmark = pytest.mark.slow

BIAS = tensors((7,), seed=2)[0].detach()
WAYS = pytest.mark.parametrize("attention", [whole, tiled], ids=["whole", "tiled"])
CALLS = pytest.mark.parametrize(
    "rest",
    [(), (None, True), (holes(), False), (holes(), True), (None, False, 0.7), (BIAS, True)],
    ids=["plain", "causal", "mask", "mask-causal", "scale", "bias-causal"],
)


# Values and gradients


@WAYS
@CALLS
def test_values_and_gradients_are_the_built_ins(attention: Attention, rest: Any) -> None:
    inputs = qkv()
    out, lse = attention(*inputs, *rest)
    expected = reference(*inputs, *rest)

    torch.testing.assert_close((out, lse), expected)
    weights = tensors(out.shape)[0]
    gradients = torch.autograd.grad((out * weights).sum(), inputs)
    truth = torch.autograd.grad((expected[0] * weights).sum(), inputs)
    torch.testing.assert_close(gradients, truth)


@WAYS
def test_the_log_sum_exp_has_a_gradient_too(attention: Attention) -> None:
    q, k, v = qkv()

    gradients = torch.autograd.grad(attention(q, k, v)[1].square().sum(), (q, k))
    truth = torch.autograd.grad(reference(q, k, v)[1].square().sum(), (q, k))

    torch.testing.assert_close(gradients, truth)


@WAYS
@pytest.mark.parametrize("lead", [(), (1,), (2, 3)])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 8), (8, 1), (4, 6), (6, 4), (0, 3), (3, 0)])
def test_any_shape(attention: Attention, lead: tuple[int, ...], n: int, m: int) -> None:
    inputs = qkv(n, m, lead=lead)

    torch.testing.assert_close(attention(*inputs), reference(*inputs))
    torch.testing.assert_close(attention(*inputs, None, True), reference(*inputs, None, True))


@pytest.mark.parametrize("block", [(1, 1), (2, 2), (3, 5), (5, 7), (64, 64), (1, 64)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_block_changes_nothing(block: tuple[int, int], causal: bool) -> None:
    inputs = qkv()
    out, lse = tiled(*inputs, None, causal, block=block)
    expected = reference(*inputs, None, causal)

    torch.testing.assert_close((out, lse), expected)
    torch.testing.assert_close(
        torch.autograd.grad(out.square().sum(), inputs),
        torch.autograd.grad(expected[0].square().sum(), inputs),
    )


MANY = qkv(64, 64, lead=(80,))  # more heads than one step processes


@pytest.mark.parametrize(
    ("inputs", "block"),
    [(grouped(), (1, 1)), (grouped(), (2, 3)), (grouped(), (64, 64)), (MANY, None)],
)
def test_what_dropout_takes_does_not_depend_on_the_tiles(inputs: Any, block: Any) -> None:
    rest = (None, False, None, 0.4, 7)
    out, expected = tiled(*inputs, *rest, block=block), whole(*inputs, *rest)

    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(
        torch.autograd.grad(out[0].square().sum(), inputs),
        torch.autograd.grad(expected[0].square().sum(), inputs),
    )


@WAYS
def test_a_query_that_sees_no_key_gets_zeros(attention: Attention) -> None:
    q, k, v = qkv()
    out, lse = attention(q, k, v, holes())
    grad_q, *_ = torch.autograd.grad(out.sum(), (q, k, v))

    assert out[:, 2].count_nonzero() == 0
    assert (lse[:, 2] == -math.inf).all()
    assert grad_q[:, 2].count_nonzero() == 0
    assert out[:, 1].count_nonzero() == out[:, 1].numel()


@WAYS
def test_large_scores_do_not_overflow(attention: Attention) -> None:
    q, k, v = (x.detach().float() for x in qkv())
    out, lse = attention(300 * q, 300 * k, v)

    torch.testing.assert_close(out, F.scaled_dot_product_attention(300 * q, 300 * k, v))
    assert lse.isfinite().all()


@WAYS
@pytest.mark.parametrize("shape", [(7,), (5, 1), (5, 7), (2, 1, 7), (2, 5, 7), ()])
def test_an_added_mask_biases_and_has_a_gradient(attention: Attention, shape: Any) -> None:
    q, k, v = qkv()
    (bias,) = tensors(shape, seed=2)
    truth = torch.autograd.grad(reference(q, k, v, bias)[0].square().sum(), (q, bias))

    found = torch.autograd.grad(attention(q, k, v, bias)[0].square().sum(), (q, bias))

    torch.testing.assert_close(found, truth)


@WAYS
@pytest.mark.parametrize(("n", "m"), [(1, 2), (2, 1), (2, 3), (3, 2)])
def test_a_mask_of_few_queries_or_keys(attention: Attention, n: int, m: int) -> None:
    inputs = qkv(n, m)
    (bias,) = tensors((n, m), seed=2)

    torch.testing.assert_close(attention(*inputs, bias), reference(*inputs, bias))


@WAYS
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_mask_of_another_dtype_changes_none(attention: Attention, dtype: torch.dtype) -> None:
    inputs, bias = [x.detach().float() for x in qkv()], BIAS.to(dtype)

    found = attention(*inputs, bias)

    torch.testing.assert_close(found, reference(*inputs, bias.float()))


@pytest.mark.parametrize("fn", [ScaledDotProductAttention, TiledAttention])
def test_left_out_nothing_is_masked_or_dropped_and_the_seed_is_0(fn: Any) -> None:
    rest = (None, False, None, 0.5)

    torch.testing.assert_close(fn.apply(*qkv()), reference(*qkv()))
    torch.testing.assert_close(fn.apply(*qkv(), *rest), fn.apply(*qkv(), *rest, 0))


@WAYS
@pytest.mark.parametrize("mask", [None, holes(), BIAS], ids=["none", "holes", "bias"])
def test_new_tensors_are_made_where_the_inputs_are(attention: Attention, mask: Any) -> None:
    inputs, rest = qkv(), (mask, True, None, 0.4, 3)
    expected = attention(*inputs, *rest)
    arrives = [x.detach() for x in tensors((2, 5, 2), (2, 5), seed=5)]
    truth = torch.autograd.grad(expected, inputs, arrives)
    with torch.device("meta"):  # call it directly: the engine runs backward outside this block
        found = attention(*inputs, *rest)
        node = found[0].grad_fn
        gradients = node._forward_cls.backward(node, *arrives)

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients[:3], truth)


def test_a_mask_that_repeats_itself_is_taken_once() -> None:
    assert unexpanded(torch.ones(1, 5, 1).expand(4, 5, 7)).shape == (1, 5, 1)


# Numerical derivatives


@WAYS
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_twice_differentiable(attention: Attention, causal: bool) -> None:
    inputs = qkv(3, 4)

    assert gradcheck(lambda *x: attention(*x, None, causal), inputs)
    assert gradgradcheck(lambda *x: attention(*x, None, causal), inputs)


@WAYS
def test_it_is_twice_differentiable_beside_masked_rows(attention: Attention) -> None:
    # Use only the output, because a log-sum-exp of -inf has no finite differences.
    assert gradcheck(lambda *x: attention(*x, holes())[0], qkv())
    assert gradgradcheck(lambda *x: attention(*x, holes())[0], qkv(lead=()))


MASKS = [(), (None, True), (holes(), False)]


@pytest.mark.parametrize("rest", first_rows(MASKS, most=2), ids=["plain", "causal", "mask"])
def test_the_doctor_finds_nothing(rest: Any) -> None:
    given = filled(rest)
    for fn, inputs in (
        (ScaledDotProductAttention, (*qkv(), *given)),
        (TiledAttention, (*qkv(), *given, (2, 3))),
    ):
        found = diagnose(fn, inputs, reference=lambda *x: reference(*x[:6]))
        assert found.findings == ()


@pytest.mark.parametrize("fn", [ScaledDotProductAttention, TiledAttention])
def test_the_doctor_finds_nothing_wrong_with_a_bias(fn: Any) -> None:
    (bias,) = tensors((5, 7), seed=2)

    assert diagnose(fn, (*qkv(), bias), reference=reference).findings == ()


# Tiles


def test_causal_attention_skips_the_tiles_above_the_diagonal() -> None:
    inputs = qkv(6, 6)
    seen: list[tuple[int, int]] = []

    def note(tile: Tile) -> None:
        seen.append((tile.row, tile.column))

    out, _ = TiledAttention.apply(*inputs, None, True, None, 0.0, 0, (2, 2), note)

    assert seen == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    seen.clear()
    out.sum().backward()
    assert seen == [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)]


@pytest.mark.parametrize(("block", "number"), [((1, 1), 35), ((2, 3), 9), ((64, 64), 1)])
def test_tiles_are_as_large_as_they_are_asked_for(block: tuple[int, int], number: int) -> None:
    seen: list[Tile] = []

    TiledAttention.apply(*qkv(5, 7), None, False, None, 0.0, 0, block, seen.append)

    assert len(seen) == number


def test_the_running_sum_is_what_one_pass_over_all_keys_gives() -> None:
    q, k, v = qkv(2, 6, lead=())
    s = (q @ k.mT / math.sqrt(3)).detach()

    def compare(tile: Tile) -> None:
        so_far = s[:, : 2 * tile.column + 2]
        highest = so_far.amax(-1, keepdim=True)
        weights = torch.exp(so_far - highest)
        torch.testing.assert_close(tile.live["max"][0], highest)
        torch.testing.assert_close(tile.live["sum"][0], weights.sum(-1, keepdim=True))
        torch.testing.assert_close(tile.live["out"][0], weights @ v.detach()[: so_far.shape[1]])

    TiledAttention.apply(q, k, v, None, False, None, 0.0, 0, (2, 2), compare)


def test_a_tile_shows_that_a_row_has_seen_no_key() -> None:
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[0], mask[1, :2] = False, False
    shown: dict[str, list[Tensor]] = {"max": [], "rescale": [], "lse": []}

    def note(tile: Tile) -> None:
        for name in shown.keys() & tile.live.keys():
            shown[name].append(tile.live[name][0, :, 0].detach().clone())

    out, _ = TiledAttention.apply(*qkv(3, 4, lead=()), mask, False, None, 0.0, 0, (3, 2), note)
    out.sum().backward()

    assert (shown["max"][0] == -math.inf).tolist() == [True, True, False]
    assert (shown["max"][1] == -math.inf).tolist() == [True, False, False]
    assert shown["rescale"][1][:2].tolist() == [0, 0]
    assert (shown["lse"][0] == -math.inf).tolist() == [True, False, False]


def test_a_tile_shows_what_it_says_it_holds() -> None:
    q, k, v = qkv(lead=(1,))
    seen: list[dict[str, Tensor]] = []

    def note(tile: Tile) -> None:
        seen.append({name: x.detach().clone() for name, x in tile.live.items()})

    out, lse = TiledAttention.apply(q, k, v, None, False, None, 0.0, 0, (8, 8), note)
    (arrives,) = tensors(tuple(out.shape), seed=5)
    grads = torch.autograd.grad(out, (q, k, v), arrives)

    forward, backward = seen
    scores = (q @ k.mT / math.sqrt(3)).detach()
    both = {"q": q, "k": k, "v": v, "scores": scores}
    weights = torch.softmax(scores, -1)
    delta = (arrives * out).sum(-1, keepdim=True)
    high = scores.amax(-1, keepdim=True)
    unnormalized = torch.exp(scores - high)
    total = unnormalized.sum(-1, keepdim=True)
    expected = {"weights": unnormalized, "rescale": 0 * high, "max": high, "sum": total}
    torch.testing.assert_close(forward, both | expected | {"out": out * total})
    expected = {"grad_out": arrives, "lse": lse[..., None], "delta": delta, "weights": weights}
    expected |= {"grad_scores": weights * (arrives @ v.mT - delta)}
    expected |= dict(zip(("grad_q", "grad_k", "grad_v"), grads, strict=True))
    torch.testing.assert_close(backward, both | expected)


def test_nothing_outlives_the_call() -> None:
    tiles: list[weakref.ref[Tensor]] = []
    inputs = qkv()
    observer = lambda tile: tiles.extend(weakref.ref(x) for x in tile.live.values())  # noqa: E731
    out, _ = TiledAttention.apply(*inputs, None, False, None, 0.0, 0, (2, 2), observer)
    out.sum().backward()
    del out
    gc.collect()

    assert len(tiles) > 100
    assert all(ref() is None for ref in tiles)


# Rejected arguments


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        (((2, 3), (4, 3), (5, 2)), "every key needs one value"),
        (
            ((2, 3), (4, 2), (4, 2)),
            r"needs .* and k \(M, E\), E > 0, got q \(2, 3\) k \(4, 2\) v \(4, 2\)$",
        ),
        (((2, 0), (4, 0), (4, 2)), "E > 0"),
        (((3,), (4, 3), (4, 2)), "attention needs q"),
        (((2, 3), (3,), (4, 2)), "attention needs q"),
        (((2, 3), (4, 3), (2,)), "attention needs q"),
        (
            ((2, 2, 3), (4, 3), (4, 2)),
            r"^q needs the leading axes of k and v, .* \(axis -3\), got q \(2, 2, 3\)",
        ),
        (((5, 2, 3), (2, 4, 3), (2, 4, 2)), "or a multiple of their heads"),
        (((5, 2, 3), (0, 4, 3), (0, 4, 2)), "or a multiple of their heads"),
        (((2, 5, 2, 3), (3, 5, 4, 3), (3, 5, 4, 2)), "q needs the leading axes of k and v"),
    ],
)
@WAYS
def test_what_does_not_fit_is_refused(attention: Attention, shapes: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        attention(*tensors(*shapes))


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (
            (torch.ones(3, 5, 7, dtype=torch.bool),),
            r"broadcast to \(2, 5, 7\), got \(3, 5, 7\)",
        ),
        ((torch.ones(5, 7, dtype=torch.int),), "a mask is boolean .True = attend. or floating"),
        ((None, False, None, 1.0, 0), "dropout_p is a probability from 0 to below 1, got 1.0"),
    ],
)
@WAYS
def test_masks_and_dropout_are_checked(attention: Attention, rest: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        attention(*qkv(), *rest)


def test_blocks_and_dtypes_are_checked() -> None:
    q, k, v = qkv()
    with pytest.raises(ValueError, match="at least one query and one key"):
        tiled(q, k, v, block=(0, 2))
    with pytest.raises(ValueError, match=r"got q torch\S+ on cpu, k torch\S+ on cpu, v torch"):
        whole(q, k.float(), v)
    with pytest.raises(ValueError, match="one real floating dtype"):
        whole(q.long(), k.long(), v.long())
