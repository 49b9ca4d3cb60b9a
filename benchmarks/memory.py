"""The cost of saving memory: each pattern compared with the plain composition in the same run.

    python -m benchmarks.memory [--quick]

"kept" is the memory in use between forward and backward, and "peak" is the maximum in both passes.
Both are the same on every machine. "time" is the time of both passes. The variants take turns in
each round. Between machines, compare only the ratios. A quick run uses three rounds, one thread and
inputs of an eighth of the size.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.utils.checkpoint
from autograd_doctor.memory import kept_bytes, peak_bytes
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from autograd_course.functions import (
    AddReLU,
    LinearReLU,
    PackedDropout,
    PackedReLU,
    checkpoint,
    coupled,
    linear_cross_entropy,
)
from benchmarks._common import command_line

MEBI = 2**20

Variants = dict[str, Callable[..., Any]]
hooked = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)
reentrant = partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)


def segments(kind: Callable[..., Tensor], net: nn.Sequential, number: int) -> Callable[..., Tensor]:
    length = len(net) // number

    def run(x: Tensor) -> Tensor:
        for i in range(0, len(net), length):
            x = kind(net[i : i + length], x)
        return x.sum()

    return run


def checkpoints(part: int) -> tuple[Variants, tuple[Tensor, ...]]:
    net = nn.Sequential(*(nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(16)))
    return {
        "plain": lambda x: net(x).sum(),
        "checkpoint, 4 segments": segments(checkpoint, net, 4),
        "torch's, hooks": segments(hooked, net, 4),
        "torch's, reentrant": segments(reentrant, net, 4),
    }, (torch.randn(2048 // part, 128),)


def losses(part: int) -> tuple[Variants, tuple[Tensor, ...]]:
    def plain(x: Tensor, w: Tensor, t: Tensor) -> Tensor:
        return cross_entropy(linear(x, w), t)

    def rows(x: Tensor, w: Tensor, t: Tensor) -> Tensor:
        return linear_cross_entropy(x, w, t, reduction="none", chunk=256).mean()

    ours = {
        f"linear_cross_entropy, chunk {n}": partial(linear_cross_entropy, chunk=n)
        for n in (64, 256, 1024)
    }
    n = 2048 // part
    inputs = torch.randn(n, 256), torch.randn(16384, 256) / 16, torch.randint(16384, (n,))
    return {
        "plain": plain,
        **ours,
        "rows, recomputed, chunk 256": rows,
        "torch's checkpoint": lambda *a: hooked(plain, *a),
    }, inputs


def couplings(part: int) -> tuple[Variants, tuple[Tensor, ...]]:
    def half() -> nn.Module:
        return nn.Sequential(nn.Linear(128, 128), nn.GELU())

    blocks = nn.ModuleList(nn.ModuleList([half(), half()]) for _ in range(16))

    def block(f: nn.Module, g: nn.Module, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
        x1 = x1 + f(x2)
        return x1, x2 + g(x1)

    def plain(kind: Callable[..., Any], x1: Tensor, x2: Tensor) -> Tensor:
        for f, g in blocks:
            x1, x2 = kind(partial(block, f, g), x1, x2)
        return (x1 * x2).sum()

    def ours(x1: Tensor, x2: Tensor) -> Tensor:
        y1, y2 = coupled([(f, g) for f, g in blocks], x1, x2)
        return (y1 * y2).sum()

    return {
        "plain": partial(plain, lambda fn, *a: fn(*a)),
        "coupled": ours,
        "torch's checkpoint of each block": partial(plain, hooked),
    }, (torch.randn(1024 // part, 128), torch.randn(1024 // part, 128))


def masks(part: int) -> tuple[Variants, tuple[Tensor, ...]]:
    """Return variants in which the next operation saves nothing, so only the mask remains."""
    return {
        "plain relu": lambda x: (torch.relu(x + 1) + 1).sum(),
        "PackedReLU": lambda x: (PackedReLU.apply(x + 1) + 1).sum(),
        "torch's dropout": lambda x: (torch.dropout(x, 0.5, True) + 1).sum(),
        "PackedDropout": lambda x: (PackedDropout.apply(x, 0.5) + 1).sum(),
        "add, relu": lambda x: (torch.relu(x + x) + 1).sum(),
        "AddReLU": lambda x: (AddReLU.apply(x, x) + 1).sum(),
    }, (torch.randn((1 << 20) // part),)


def layers(part: int) -> tuple[Variants, tuple[Tensor, ...]]:
    return {
        "linear, relu": lambda x, w, b: (linear(x, w, b).relu() + 1).sum(),
        "LinearReLU": lambda x, w, b: (LinearReLU.apply(x, w, b) + 1).sum(),
        "LinearReLU, sign": lambda x, w, b: (LinearReLU.apply(x, w, b, "sign") + 1).sum(),
    }, (torch.randn(4096 // part, 256), torch.randn(256, 256), torch.randn(256))


def seconds(variants: Variants, inputs: tuple[Tensor, ...], rounds: int) -> dict[str, float]:
    """Return each variant's median time for forward and backward. The variants alternate."""
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds + 1):
        for name, call in variants.items():
            start = time.perf_counter()
            call(*leaves).backward()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def rows(variants: Variants, inputs: tuple[Tensor, ...], rounds: int) -> Iterator[tuple[str, ...]]:
    times = seconds(variants, inputs, rounds)
    first = next(iter(variants))
    base = peak_bytes(variants[first], *inputs), times[first]
    for name, call in variants.items():
        peak = peak_bytes(call, *inputs)
        kept = f"{kept_bytes(call, *inputs) / MEBI:.2f}"
        ratios = f"{peak / base[0]:.2f}", f"{times[name] / base[1]:.2f}"
        yield name, kept, f"{peak / MEBI:.2f}", *ratios


def main() -> None:
    quick = command_line(__doc__).parse_args().quick
    part, rounds = (8, 3) if quick else (1, 5)
    if quick:
        torch.set_num_threads(1)  # on a busy machine, several threads would wait for each other
    torch.manual_seed(0)
    table = Table("", "kept, MiB", "peak, MiB", "peak ÷ first", "time ÷ first")
    for family in (checkpoints, losses, couplings, masks, layers):
        for row in rows(*family(part), rounds):
            table.add_row(*row)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
