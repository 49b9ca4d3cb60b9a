"""Tiled attention uses a constant amount of memory, plus some bytes for each row of its inputs."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from attentions import Attention, peak, qkv, tiled, whole
from autograd_doctor.memory import Largest
from sampling import first_rows
from torch import Tensor

from autograd_course.functions.attention import attention, tiled_attention
from autograd_course.functions.attention.tiles import BLOCK, CAUSAL_BLOCK

pytestmark = pytest.mark.slow

LENGTHS = (1024, 2048, 4096, 8192)  # from 1024 on, all tiles are whole


def largest(call: Callable[[], object]) -> int:
    with Largest() as mode:
        call()
    return mode.elements


def inputs(n: int, e: int = 4) -> list[Tensor]:
    return [x.detach().float().requires_grad_() for x in qkv(n, n, e, e, ())]


def forward(call: Any, leaves: list[Tensor], **options: Any) -> Any:
    return lambda: call(*leaves, **options)


def first(call: Any, leaves: list[Tensor], **options: Any) -> Any:
    return lambda: torch.autograd.grad(call(*leaves, **options).sum(), leaves)


def second(call: Any, leaves: list[Tensor], **options: Any) -> Any:
    def twice() -> Any:
        loss = call(*leaves, **options).square().sum()
        grads = torch.autograd.grad(loss, leaves, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in grads), leaves)

    return twice


@pytest.mark.parametrize("order", first_rows([first, forward, second], most=1))
@pytest.mark.parametrize(
    "options", first_rows([{"causal": True, "dropout_p": 0.1, "seed": 0}, {}], most=1)
)
def test_memory_is_linear_in_the_length(order: Any, options: Any) -> None:
    lengths = LENGTHS[:3] if options or order is second else LENGTHS
    held = [peak(order(tiled_attention, inputs(n), **options)) for n in lengths]
    steps = [more - less for less, more in pairwise(held)]

    for i, step in enumerate(steps[1:], 1):
        assert step == pytest.approx(2 * steps[i - 1], rel=0.02)
    assert steps[0] < 1024 * 4 * 100  # 100 numbers per row; a row of scores has 2048


def test_short_sequences_take_less_than_the_score_matrix_of_long_ones() -> None:
    held = {n: peak(first(tiled_attention, inputs(n))) for n in (256, 512)}

    assert held[256] < held[512] < 5 * 4 * 512 * 512


def test_whole_attention_takes_the_square() -> None:
    held = [peak(first(attention, inputs(n))) for n in (512, 1024)]

    assert held[1] > 3.9 * held[0]


@pytest.mark.parametrize("order", [forward, first, second])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"dropout_p": 0.1, "seed": 0}])
def test_no_tensor_has_the_size_of_the_score_matrix(order: Any, options: Any) -> None:
    # The buffers of a pass are allocated together, and each is as large as a tile.
    tile = math.prod(CAUSAL_BLOCK if options.get("causal") else BLOCK)
    n, buffers = 1536, {forward: 1, first: 2, second: 4}[order]

    assert largest(order(tiled_attention, inputs(n), **options)) == buffers * tile
    assert largest(order(attention, inputs(256), **options)) >= 256 * 256


def test_a_mask_that_broadcasts_is_not_made_larger() -> None:
    n = 1536
    leaves, mask = inputs(n), torch.ones(n, dtype=torch.bool)
    mask[::2] = False

    for given in (mask, mask.expand(n, n), torch.zeros(n, 1, requires_grad=True)):
        assert largest(first(tiled_attention, leaves, mask=given)) == 2 * math.prod(BLOCK)


def test_keys_of_a_group_are_not_repeated() -> None:
    q, k, v = (torch.randn(1, heads, 256, 8, requires_grad=True) for heads in (32, 1, 1))

    assert peak(forward(tiled_attention, [q, k, v])) < 2 * q.nbytes + 2 * 4 * 2**18 + 2**18


def test_only_inputs_output_and_log_sum_exp_are_kept_for_backward() -> None:
    for fn in (whole, tiled):
        kept: list[Tensor] = []
        leaves = qkv(9, 9, lead=())
        with torch.autograd.graph.saved_tensors_hooks(lambda x, k=kept: k.append(x) or x, id):
            fn(*leaves, None, True, None, 0.5, 1)
        assert sum(x.numel() for x in kept) == 9 * 3 + 9 * 3 + 9 * 2 + 9 * 2 + 9


@pytest.mark.parametrize("fn", [whole, tiled])
def test_what_is_kept_is_freed_by_backward(fn: Attention) -> None:
    leaves = qkv()
    out, _ = fn(*leaves)
    out.sum().backward()

    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()
