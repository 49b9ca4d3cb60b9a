"""The decayed running sum as a Triton kernel, which scans each row in one program."""

# mypy: ignore-errors
# (Triton compiles the kernels, and might not be installed)

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def joined(decay, total, next_decay, next_total):
    """Join two stretches of time. The sum of the first one decays through the second one."""
    return decay * next_decay, total * next_decay + next_total


@triton.jit
def scan_kernel(x, a, y, length, REVERSE: tl.constexpr, WIDTH: tl.constexpr):
    """Compute y[t] = x[t] + a · y[t-1] for one row. With ``REVERSE``, y[t+1] replaces y[t-1]."""
    row = tl.program_id(0).to(tl.int64) * length
    t = tl.arange(0, WIDTH)
    inside = t < length
    numbers = tl.load(x + row + t, inside, other=0.0)
    decays = tl.zeros([WIDTH], numbers.dtype) + tl.load(a)
    _, sums = tl.associative_scan((decays, numbers), 0, joined, reverse=REVERSE)
    tl.store(y + row + t, sums, inside)


def triton_decayed_sum(x: Tensor, a: float | Tensor, reverse: bool) -> Tensor:
    """Return ``y[t] = x[t] + a · y[t-1]`` along the last dim. If ``reverse``, use ``y[t+1]``.

    ``x`` is float32 or float64 on a CUDA GPU, and its last dim has at most 16384 elements. With
    ``TRITON_INTERPRET=1``, it may also be on the CPU. The kernel reads the decay from a tensor with
    the dtype of ``x``, because Triton passes a float as float32.
    """
    x = x.contiguous()
    length = x.shape[-1]
    if length > 16384:
        raise ValueError(f"decayed_sum: a row of {length} times does not fit into one program")
    y = torch.empty_like(x)
    decay = torch.as_tensor(a, dtype=x.dtype, device=x.device)
    if x.numel():
        with _on(x.device):
            width = triton.next_power_of_2(length)
            scan_kernel[(x.numel() // length,)](x, decay, y, length, reverse, width)
    return y


def _on(device: torch.device) -> Any:
    """Make a GPU the current device, because Triton launches kernels on its current stream."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


decayed_sum = triton_decayed_sum  # the name that lesson 14 imported
