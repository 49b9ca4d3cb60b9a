"""Attention, whole and tiled: the built-in's values and gradients, and none of its big tensors."""

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from autograd_course import diagnose
from autograd_course.functions.attention import ScaledDotProductAttention
from autograd_course.functions.attention_tiles import Tile
from autograd_course.functions.tiled_attention import TiledAttention

Attention = Callable[..., tuple[Tensor, Tensor]]


def whole(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return ScaledDotProductAttention.apply(q, k, v, *rest)


def tiled(q: Tensor, k: Tensor, v: Tensor, *rest: Any, block: Any = (2, 3)) -> Any:
    return TiledAttention.apply(q, k, v, *padded(rest), block)


def padded(rest: tuple[Any, ...]) -> list[Any]:
    return [*rest, *[None, False, None][len(rest) :]]


def tensors(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [x.requires_grad_() for x in made]


def qkv(n: int = 5, m: int = 7, e: int = 3, f: int = 2, lead: tuple[int, ...] = (2,)) -> Any:
    return tensors((*lead, n, e), (*lead, m, e), (*lead, m, f))


def holes(n: int = 5, m: int = 7) -> Tensor:
    """A mask with a row that sees nothing, and a row that sees nothing in its first tile."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(n, m, generator=generator) > 0.3
    mask[2] = False
    mask[1, :3] = False
    return mask


def reference(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, causal: bool = False, scale: Any = None
) -> tuple[Tensor, Tensor]:
    """The built-in, with the log-sum-exp that it keeps to itself."""
    scale = scale or 1 / math.sqrt(q.shape[-1])
    s = scale * q @ k.mT
    if causal:
        below = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
        mask = below if mask is None else mask & below
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale), torch.logsumexp(s, -1)


WAYS = pytest.mark.parametrize("attention", [whole, tiled], ids=["whole", "tiled"])
CALLS = pytest.mark.parametrize(
    "rest",
    [(), (None, True), (holes(), False), (holes(), True), (None, False, 0.7)],
    ids=["plain", "causal", "mask", "mask-causal", "scale"],
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
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 8), (8, 1), (4, 6), (6, 4), (0, 3)])
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


def test_an_added_mask_biases_and_has_a_gradient() -> None:
    q, k, v = qkv()
    (bias,) = tensors((7,), seed=2)
    truth = torch.autograd.grad(reference(q, k, v, bias)[0].square().sum(), (q, bias))

    found = torch.autograd.grad(whole(q, k, v, bias)[0].square().sum(), (q, bias))

    torch.testing.assert_close(found, truth)


# Derivatives by differences


@WAYS
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_twice_differentiable(attention: Attention, causal: bool) -> None:
    inputs = qkv(3, 4)

    assert gradcheck(lambda *x: attention(*x, None, causal), inputs)
    assert gradgradcheck(lambda *x: attention(*x, None, causal), inputs)


@WAYS
def test_it_is_twice_differentiable_beside_masked_rows(attention: Attention) -> None:
    # Only the output: differences cannot be taken of a log-sum-exp of -inf.
    assert gradcheck(lambda *x: attention(*x, holes())[0], qkv())
    assert gradgradcheck(lambda *x: attention(*x, holes())[0], qkv(lead=()))


MASKS = [(), (None, True), (holes(), False)]


@pytest.mark.parametrize("rest", MASKS, ids=["plain", "causal", "mask"])
def test_the_doctor_finds_nothing(rest: Any) -> None:
    given = padded(rest)
    for fn, inputs in (
        (ScaledDotProductAttention, (*qkv(), *given)),
        (TiledAttention, (*qkv(), *given, (2, 3))),
    ):
        found = diagnose(fn, inputs, reference=lambda *x: reference(*x[:6]))
        assert found.findings == ()


def test_the_doctor_finds_nothing_wrong_with_a_bias() -> None:
    (bias,) = tensors((5, 7), seed=2)

    assert diagnose(ScaledDotProductAttention, (*qkv(), bias), reference=reference).findings == ()


# Memory


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation returned."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            self.elements = max(self.elements, x.numel() if isinstance(x, Tensor) else 0)
        return result


def largest(attention: Attention, n: int, causal: bool) -> tuple[int, int]:
    """Return the elements of the largest tensor in forward and in backward."""
    inputs = qkv(n, n, 4, 4, lead=())
    with Largest() as forward:
        out, _ = attention(*inputs, None, causal)
    with Largest() as backward:
        torch.autograd.grad(out, inputs, torch.ones_like(out))
    return forward.elements, backward.elements


@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_has_the_size_of_the_score_matrix(causal: bool) -> None:
    assert largest(whole, 96, causal) == (96 * 96, 96 * 96)
    assert largest(tiled, 96, causal) == (96 * 4, 96 * 4)


def test_only_inputs_output_and_log_sum_exp_are_kept_for_backward() -> None:
    for attention in (whole, tiled):
        kept: list[Tensor] = []
        inputs = qkv(9, 9, lead=())
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda x, k=kept: k.append(x) or x, id)
        with hooks:
            attention(*inputs)
        assert sum(x.numel() for x in kept) == 9 * 3 + 9 * 3 + 9 * 2 + 9 * 2 + 9


def test_causal_attention_skips_the_tiles_above_the_diagonal() -> None:
    inputs = qkv(6, 6)
    seen: list[tuple[int, int]] = []

    def note(tile: Tile) -> None:
        seen.append((tile.row, tile.column))

    out, _ = TiledAttention.apply(*inputs, None, True, None, (2, 2), note)

    assert seen == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    seen.clear()
    out.sum().backward()
    assert seen == [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)]


def test_the_running_sum_is_what_one_pass_over_all_keys_gives() -> None:
    q, k, v = qkv(2, 6, lead=())
    tiles: list[Tile] = []
    TiledAttention.apply(q, k, v, None, False, None, (2, 2), tiles.append)
    s = q @ k.mT / math.sqrt(3)

    for tile in tiles:
        so_far = s[:, : 2 * tile.column + 2]
        highest = so_far.amax(-1, keepdim=True)
        weights = torch.exp(so_far - highest)
        torch.testing.assert_close(tile.live["max"], highest)
        torch.testing.assert_close(tile.live["sum"], weights.sum(-1, keepdim=True))
        torch.testing.assert_close(tile.live["out"], weights @ v[: so_far.shape[1]])


def test_nothing_outlives_the_call() -> None:
    tiles: list[weakref.ref[Tensor]] = []
    inputs = qkv()
    observer = lambda tile: tiles.extend(weakref.ref(x) for x in tile.live.values())  # noqa: E731
    out, _ = TiledAttention.apply(*inputs, None, False, None, (2, 2), observer)
    out.sum().backward()
    del out
    gc.collect()

    assert len(tiles) > 100
    assert all(ref() is None for ref in tiles)


# Refusals


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        (((2, 3), (4, 3), (5, 2)), "attention needs q"),
        (((2, 3), (4, 2), (4, 2)), "attention needs q"),
        (((2, 3), (0, 3), (0, 2)), "attention needs q"),
        (((2, 2, 3), (4, 3), (4, 2)), "the same leading axes"),
    ],
)
@WAYS
def test_what_does_not_fit_is_refused(attention: Attention, shapes: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        attention(*tensors(*shapes))


def test_masks_and_blocks_are_checked() -> None:
    q, k, v = qkv()
    with pytest.raises(ValueError, match=r"a mask must broadcast to \(2, 5, 7\), got \(3, 5, 7\)"):
        whole(q, k, v, torch.ones(3, 5, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match="TiledAttention needs a boolean mask"):
        tiled(q, k, v, torch.zeros(5, 7))
    with pytest.raises(ValueError, match="at least one query and one key"):
        tiled(q, k, v, block=(0, 2))
