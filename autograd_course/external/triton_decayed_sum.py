"""The decayed running sum as a Triton kernel. One program scans each row."""

# mypy: ignore-errors
# (Triton compiles the kernels, and it may not be installed)

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def joined(decay, total, next_decay, next_total):
    """Join two stretches of time. The first total decays during the second stretch."""
    return decay * next_decay, total * next_decay + next_total


@triton.jit
def scan_kernel(x, a, y, length, REVERSE: tl.constexpr, WIDTH: tl.constexpr):
    """Compute y[t] = x[t] + a · y[t-1] for one row; if ``REVERSE``, with y[t+1] instead."""
    row = tl.program_id(0).to(tl.int64) * length
    t = tl.arange(0, WIDTH)
    inside = t < length
    numbers = tl.load(x + row + t, inside, other=0.0)
    decays = tl.zeros([WIDTH], numbers.dtype) + tl.load(a)
    _, sums = tl.associative_scan((decays, numbers), 0, joined, reverse=REVERSE)
    tl.store(y + row + t, sums, inside)


def triton_decayed_sum(x: Tensor, a: float | Tensor, reverse: bool) -> Tensor:
    """Compute a decayed running sum along the last dim, on a GPU.

    The equation is ``y[t] = x[t] + a · y[t-1]``. If ``reverse`` is true, it is
    ``y[t] = x[t] + a · y[t+1]``.

    Args:
        x: A float32 or float64 tensor on a CUDA GPU. Its last dim has at most 16384 elements. With
            ``TRITON_INTERPRET=1``, the tensor can also be on the CPU.
        a: The decay, a number or a tensor with one element. The kernel reads it from a tensor with
            the dtype of ``x``, because Triton would pass a Python float as float32.
        reverse: Whether the sum runs from the last element to the first.

    Returns:
        A tensor with the shape, dtype and device of ``x``.

    Raises:
        ValueError: The last dim of ``x`` has more than 16384 elements.

    Example:
        >>> x = torch.ones(3, device="cuda")
        >>> triton_decayed_sum(x, 0.5, reverse=False).tolist()
        [1.0, 1.5, 1.75]

    Source: Blelloch, "Prefix sums and their applications", 1990.
    """
    x = x.contiguous()
    length = x.shape[-1]
    if length > 16384:
        raise ValueError(
            f"triton_decayed_sum: the last dim of `x` has {length} elements, but at most 16384 fit "
            "into one program."
        )
    y = torch.empty_like(x)
    decay = torch.as_tensor(a, dtype=x.dtype, device=x.device)
    if x.numel():
        with _on(x.device):
            width = triton.next_power_of_2(length)
            scan_kernel[(x.numel() // length,)](x, decay, y, length, reverse, width)
    return y


def _on(device: torch.device) -> Any:
    """Make ``device`` the current GPU, because Triton launches kernels on its current stream."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


decayed_sum = triton_decayed_sum  # the name that lesson 14 imported
