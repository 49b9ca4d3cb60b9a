"""What attention costs beside PyTorch's own, in one run: time, and the most memory held at once.

    python -m benchmarks.attention            (--quick: only the two shorter lengths)

One head of 64 features, float32, one thread. "math" and "flash" are the backends of
``F.scaled_dot_product_attention`` on a CPU; attention and tiled_attention are this package's. Times
are the best of several runs that take turns, so that a neighbor on the machine harms all alike;
compare ratios. Memory is the CPU allocator's own account of forward and backward: exact, and the
same in every run. It holds neither the inputs nor what a matrix product uses inside.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import torch
from attentions import peak
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from autograd_course.functions.attention import attention, tiled_attention

LENGTHS = (1024, 2048, 4096, 8192)
ROUNDS = 3
Run = Callable[..., Tensor]


def built_in(backend: SDPBackend) -> Run:
    def call(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


WAYS: dict[str, Run] = {
    "math": built_in(SDPBackend.MATH),
    "flash": built_in(SDPBackend.FLASH_ATTENTION),
    "attention": attention,
    "tiled_attention": tiled_attention,
}


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def passes(way: Run, n: int, causal: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a forward pass, and a forward pass with its backward."""
    torch.manual_seed(0)
    leaves = [torch.randn(1, 1, n, 64, requires_grad=True) for _ in range(3)]
    given = [x.detach() for x in leaves]
    arrives = torch.randn(1, 1, n, 64)
    return (
        lambda: way(*given, causal=causal),
        lambda: torch.autograd.grad(way(*leaves, causal=causal), leaves, arrives),
    )


def measure(n: int, causal: bool) -> dict[str, tuple[float, float, float]]:
    """Return seconds of forward, seconds of both, and MiB of each way."""
    runs = {name: passes(way, n, causal) for name, way in WAYS.items()}
    held = {name: peak(both) / 2**20 for name, (_, both) in runs.items()}
    best = {name: [float("inf")] * 2 for name in runs}
    for _ in range(ROUNDS):
        for name, calls in runs.items():
            best[name] = [min(old, seconds(c)) for old, c in zip(best[name], calls, strict=True)]
    return {name: (*best[name], held[name]) for name in runs}


def main() -> None:
    torch.set_num_threads(1)
    lengths = LENGTHS[:2] if "--quick" in sys.argv else LENGTHS
    for causal in (False, True):
        table = Table("N", "way", "forward, ms", "both, ms", "× math", "peak, MiB")
        table.title = "causal" if causal else "all keys"
        for n in lengths:
            found = measure(n, causal)
            for name, (forward, both, held) in found.items():
                ratio = f"{both / found['math'][1]:.2f}"
                times = f"{forward * 1e3:.0f}", f"{both * 1e3:.0f}"
                table.add_row(str(n), name, *times, ratio, f"{held:.1f}")
            table.add_section()
        Console().print(table)


if __name__ == "__main__":
    main()
