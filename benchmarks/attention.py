"""Time and peak memory of attention, compared with PyTorch's own attention in the same run.

    python -m benchmarks.attention [--quick]

On a CPU, the benchmark measures one head of 64 features in float32, on one thread. On a CUDA GPU,
it measures eight heads of 64 and of 128 features in bfloat16. On a GPU, tiled_attention uses the
Triton kernels, which compete with flash. "math", "efficient" and "flash" are the backends of
``F.scaled_dot_product_attention`` that exist on this machine. attention and tiled_attention come
from this package. Each time is the best of several runs. The variants take turns, so that other
work on the machine slows all of them. Compare only the ratios. Memory is the amount that the
allocator counts in forward and backward, excluding the inputs and the workspace of matrix products.
On a CPU, it is the same in every run. A quick run measures the shortest length once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from benchmarks._common import command_line

from attentions import peak  # isort: skip

from autograd_course.functions.attention import attention, tiled_attention

Run = Callable[..., Tensor]
Call = Callable[[], object]


@dataclass(frozen=True)
class Machine:
    """The device, and the sizes to measure on this device."""

    device: str
    dtype: torch.dtype
    heads: int
    widths: tuple[int, ...]
    lengths: tuple[int, ...]
    rounds: int
    name: str


def machine() -> Machine:
    """Return the GPU if there is one. Otherwise, return the CPU with one thread."""
    if torch.cuda.is_available():
        name = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
        return Machine(
            "cuda", torch.bfloat16, 8, (64, 128), tuple(2**i for i in range(10, 15)), 20, name
        )
    torch.set_num_threads(1)
    name = f"a CPU, one thread, PyTorch {torch.__version__}"
    return Machine("cpu", torch.float32, 1, (64,), (1024, 2048, 4096, 8192), 3, name)


def built_in(backend: SDPBackend) -> Run:
    def call(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


WAYS: dict[str, Run] = {
    "math": built_in(SDPBackend.MATH),
    "efficient": built_in(SDPBackend.EFFICIENT_ATTENTION),
    "flash": built_in(SDPBackend.FLASH_ATTENTION),
    "attention": attention,
    "tiled_attention": tiled_attention,
}


def passes(way: Run, on: Machine, n: int, width: int, causal: bool) -> tuple[Call, Call]:
    """Return two calls: one runs a forward pass, and one runs a forward and a backward pass."""
    torch.manual_seed(0)
    shape = 1, on.heads, n, width
    given = [torch.randn(shape, device=on.device, dtype=on.dtype) for _ in range(3)]
    leaves = [x.clone().requires_grad_() for x in given]
    arrives = torch.randn(shape, device=on.device, dtype=on.dtype)
    return (
        lambda: way(*given, causal=causal),
        lambda: torch.autograd.grad(way(*leaves, causal=causal), leaves, arrives),
    )


def seconds(call: Call, on: Machine) -> float:
    if on.device == "cpu":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def held(call: Call, on: Machine) -> int:
    """Return a call's peak memory in bytes, excluding memory that was allocated before the call."""
    if on.device == "cpu":
        return peak(call)
    call()  # do not count the memory that libraries allocate on first use
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def runs(on: Machine, n: int, width: int, causal: bool) -> dict[str, tuple[float, Call, Call]]:
    """For each variant that exists here and fits in memory, return its MiB and the two passes."""
    found = {}
    for name, way in WAYS.items():
        forward, both = passes(way, on, n, width, causal)
        try:
            found[name] = (held(both, on) / 2**20, forward, both)
        except RuntimeError as error:  # this machine has no such kernel, or not enough memory
            print(f"{name}, N = {n}: {str(error).partition('.')[0]}", file=sys.stderr)
    return found


def measure(on: Machine, n: int, width: int, causal: bool) -> dict[str, tuple[float, float, float]]:
    """Return each variant's seconds for forward, its seconds for both passes, and its MiB."""
    ways = runs(on, n, width, causal)
    best = {name: [float("inf")] * 2 for name in ways}
    for _ in range(on.rounds):
        for name, (_, *calls) in ways.items():
            now = [seconds(call, on) for call in calls]
            best[name] = [min(pair) for pair in zip(best[name], now, strict=True)]
    return {name: (best[name][0], best[name][1], ways[name][0]) for name in ways}


def table(on: Machine, width: int, causal: bool) -> Table:
    shown = Table("N", "way", "forward, ms", "both, ms", "× math", "× flash", "peak, MiB")
    shown.title = f"{'causal' if causal else 'all keys'}, width {width}, on {on.name}"
    for n in on.lengths:
        found = measure(on, n, width, causal)
        for name, (forward, both, mib) in found.items():
            beside = [
                f"{both / found[other][1]:.2f}" if other in found else "–"
                for other in ("math", "flash")
            ]
            shown.add_row(
                str(n), name, f"{forward * 1e3:.2f}", f"{both * 1e3:.2f}", *beside, f"{mib:.1f}"
            )
        shown.add_section()
    return shown


def main() -> None:
    quick, on = command_line(__doc__).parse_args().quick, machine()
    if quick:
        on = replace(on, lengths=on.lengths[:1], rounds=1)
    if on.device == "cpu":
        print("The Triton kernels are skipped: there is no CUDA GPU.")
    for width in on.widths:
        for causal in (False, True):
            Console(width=120).print(table(on, width, causal))


if __name__ == "__main__":
    main()
