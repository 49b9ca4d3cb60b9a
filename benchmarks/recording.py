"""The cost of recording a program, compared with the same program without recording.

    python -m benchmarks.recording [--quick]

The benchmark runs three programs with and without ``autograd_doctor.recording()`` in one process,
in alternating order. It prints the ratio of the times: 1.00 means that recording costs nothing. The
goal is at most 1.10.

- "training" trains a network whose activations are Functions, as a training script does.
- "tests" calls each Function a few times on new shapes, as a test suite does.
- "tight loop" only calls one Function on three numbers, which is the worst case.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from autograd_doctor import recording
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.autograd import Function

from benchmarks._common import command_line


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class Clamp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward((x >= low) & (x <= high))
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (inside,) = ctx.saved_tensors
        return grad_output * inside, None, None


square, clamp = Square.apply, Clamp.apply


def training(steps: int) -> None:
    torch.manual_seed(0)
    weights = [torch.randn(64, 64, requires_grad=True) for _ in range(4)]
    optimizer = torch.optim.Adam(weights, lr=1e-3)
    for _ in range(steps):
        x = torch.randn(128, 64)
        for weight in weights:
            x = clamp(square(x @ weight / 8), 0.0, 3.0)
        optimizer.zero_grad()
        x.mean().backward()
        optimizer.step()


def tests(count: int) -> None:
    for number in range(count):
        x = torch.randn(2 + number % 30, 1 + number % 7, dtype=torch.float64, requires_grad=True)
        y = clamp(square(x), 0.1, 1.0)
        y.sum().backward()
        torch.testing.assert_close(y, (x * x).clamp(0.1, 1.0))


def tight_loop(count: int) -> None:
    x = torch.ones(3, requires_grad=True)
    for _ in range(count):
        square(x).sum().backward()


PROGRAMS = {
    "training": (training, 1600),
    "tests": (tests, 8000),
    "tight loop": (tight_loop, 40_000),
}


def seconds(program: Callable[[int], None], size: int, recorded: bool) -> float:
    # The examination starts after the program has ended, so its time does not count.
    with recording() if recorded else nullcontext():
        start = time.perf_counter()
        program(size)
        return time.perf_counter() - start


def main() -> None:
    quick = command_line(__doc__).parse_args().quick
    torch.set_num_threads(1)
    table = Table("program", "alone, s", "recorded, s", "ratio", "smallest", "largest")
    for name, (program, full) in PROGRAMS.items():
        size, rounds = (full // 80, 2) if quick else (full, 9)
        program(size)
        pairs = []
        for turn in range(rounds):
            order = (False, True) if turn % 2 else (True, False)
            took = {recorded: seconds(program, size, recorded) for recorded in order}
            pairs.append((took[False], took[True]))
        ratios = [recorded / alone for alone, recorded in pairs]
        alone, recorded = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(ratios)
        figures = (
            f"{alone:.3f}",
            f"{recorded:.3f}",
            *(f"{it:.2f}" for it in (ratio, min(ratios), max(ratios))),
        )
        table.add_row(name, *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
