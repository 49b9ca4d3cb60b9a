"""Tiled attention on a GPU, with one kernel for forward and two kernels for backward."""

import importlib.util
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import How, fitting, how
from autograd_course.functions.attention.dropout import column_words, row_words, threshold
from autograd_course.functions.attention.tiled import TiledAttentionBackward
from autograd_course.functions.attention.tiles import Grid

BYTES = 8192  # the size of a block of rows; GPUs older than Ampere have room for only half of it
WIDEST = 128  # the maximum number of features; a product needs blocks of at least 16 rows


def usable(q: Tensor, v: Tensor, mask: Tensor | None) -> bool:
    """Return whether the kernels support this call.

    They need a GPU and Triton. They do not support a mask, float64, empty tensors, or more than
    ``WIDEST`` features.
    """
    return (
        q.is_cuda
        and mask is None
        and q.dtype != torch.float64
        and max(q.shape[-1], v.shape[-1]) <= WIDEST
        and min(q.numel(), v.numel()) > 0
        and importlib.util.find_spec("triton") is not None
    )


class TritonAttention(torch.autograd.Function):
    """Compute :class:`TiledAttention` in GPU kernels, without a mask or an observer.

    Equations, shapes, fully masked rows, the dropout pattern and both outputs are the same as in
    :class:`TiledAttention`. Products of float32 tensors use full float32 precision, not TF32. Each
    block of rows has its own program, so no sum depends on the order in which the programs run, and
    two runs give bitwise identical results. Twice differentiable: under ``create_graph``, backward
    uses :class:`TiledAttentionBackward`.

    Args:
        q: The queries, ``(..., H, N, E)``: float16, bfloat16 or float32, on a GPU.
        k: The keys, ``(..., G, M, E)``.
        v: The values, ``(..., G, M, F)``.
        causal: Whether query ``i`` attends only to the keys up to ``i``.
        scale: The scaling factor of the scores, ``1/√E`` by default.
        dropout_p: The probability that dropout sets a weight to 0.
        seed: The random seed for dropout.

    Returns:
        ``O`` and the log-sum-exp of each row.

    Raises:
        ValueError: The shapes, dtypes or devices do not match, or ``dropout_p`` is not in
            ``[0, 1)``.

    Triton raises an error if a tensor is not on a GPU. The tests set ``TRITON_INTERPRET=1``, which
    makes Triton accept CPU tensors too.

    Sources: Dao, "FlashAttention-2", 2023; Tillet, Kung and Cox, "Triton", 2019.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        causal: bool = False,
        scale: float | None = None,
        dropout_p: float = 0.0,
        seed: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Return ``O`` and the log-sum-exp of each row, and save both with the inputs."""
        from autograd_course.functions.attention.triton_kernels import forward_kernel

        fitting(q, k, v, None)
        ctx.how = how(q, causal, scale, dropout_p, seed)
        launch = Launch(q, k, v, ctx.how)
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        lse = q.new_empty(q.shape[:-1], dtype=torch.float32)
        forward_kernel[launch.by_rows](
            *launch.inputs, out, lse, *launch.words, *launch.sizes, launch.below, ctx.how.kept,
            **launch.options,
        )  # fmt: skip
        ctx.save_for_backward(q, k, v, None, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``q``, ``k`` and ``v``."""
        needs = (*ctx.needs_input_grad[:3], False)
        if torch.is_grad_enabled():
            call: Any = TiledAttentionBackward.apply
            found = call(*ctx.saved_tensors, grad_out, grad_lse, ctx.how, needs)[:3]
        else:
            found = _by_kernels(ctx.saved_tensors, grad_out, grad_lse, ctx.how, needs)
        return *found, *([None] * (len(ctx.needs_input_grad) - 3))


def _by_kernels(
    saved: Any, grad_out: Tensor, grad_lse: Tensor, how: How, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    from autograd_course.functions.attention.triton_kernels import (
        backward_keys_kernel,
        backward_rows_kernel,
    )

    q, k, v, _, out, lse = saved
    launch = Launch(q, k, v, how)
    grad = grad_out.float()
    delta = ((grad * out).sum(-1) - grad_lse).contiguous()
    given = *launch.inputs, (how.kept * grad).to(q.dtype).contiguous(), lse, delta, *launch.words
    to_q, to_k, to_v = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    if needs[0]:
        backward_rows_kernel[launch.by_rows](
            *given, to_q, *launch.sizes, launch.below, **launch.options
        )
    if needs[1] or needs[2]:
        backward_keys_kernel[launch.by_keys](
            *given, to_k, to_v, *launch.sizes, launch.below, **launch.options
        )
    pairs = zip((to_q, to_k, to_v), needs, strict=False)
    return tuple(grad if needed else None for grad, needed in pairs)


class Launch:
    """The arguments that one attention call passes to all of its kernels."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, how: How) -> None:
        grid = Grid(q, k, None, how)
        (heads, members), n, m = grid.lead, grid.places.n, grid.places.m
        e, f = q.shape[-1], v.shape[-1]
        block = rows_of_block(q.element_size() * max(_power(e), _power(f)), _roomy(q.device))
        self.inputs = tuple(x.contiguous() for x in (q, k, v))
        self.sizes = n, m, e, f, members, how.scale
        self.by_rows = -(-n // block), heads * members
        self.by_keys = -(-m // block), heads
        self.below = threshold(how.dropout_p)
        self.words = _words(heads * members * n, m, how, q)
        self.options = {
            "ROWS": block,
            "KEYS": block,
            "WIDE": _power(e),
            "DEEP": _power(f),
            "CAUSAL": how.causal,
            "DROPOUT": how.dropout_p > 0,
            "num_stages": 1,
        }


def rows_of_block(row_bytes: int, roomy: bool) -> int:
    """Return the height and width of a square tile that fits into the GPU's shared memory."""
    return max(16, min(64, (BYTES if roomy else BYTES // 2) // row_bytes))


def _roomy(device: torch.device) -> bool:
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)


def _power(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


def _words(rows: int, columns: int, how: How, like: Tensor) -> tuple[Tensor, Tensor]:
    if not how.dropout_p:
        nothing = torch.empty(1, dtype=torch.int32, device=like.device)
        return nothing, nothing
    numbers = torch.arange(max(rows, columns), device=like.device)
    return row_words(numbers[:rows], how.seed), column_words(numbers[:columns], how.seed)
