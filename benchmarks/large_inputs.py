"""What a diagnosis of large inputs takes: seconds, and bytes at once for each number of the inputs.

    python -m benchmarks.large_inputs [LENGTH]

LENGTH is that of a side of each square input: 2000. Each Function runs in a process of its own,
whose peak is then its own. gradcheck would build a Jacobian of LENGTH to the fourth numbers.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.autograd import Function

from autograd_course import diagnose


class Cube(Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


class WrongAbove3(Cube):
    @staticmethod
    def backward(ctx, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x > 3, 0, 3 * x**2 * g)


class SumOfCubes(Cube):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return (x**3).sum()


class Product(Function):
    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        asked = ctx.needs_input_grad
        return y * g if asked[0] else None, x * g if asked[1] else None


SUBJECTS = {function.__name__: function for function in (Cube, WrongAbove3, SumOfCubes, Product)}


def peak() -> int:
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes * 1024


def measured(name: str, length: int) -> dict[str, float | str]:
    count = 2 if name == "Product" else 1
    diagnose(SUBJECTS[name], [torch.randn(3, 3) for _ in range(count)])
    torch.manual_seed(0)
    inputs = [torch.randn(length, length) for _ in range(count)]
    before, start = peak(), time.perf_counter()
    found = diagnose(SUBJECTS[name], inputs)
    seconds, taken = time.perf_counter() - start, peak() - before
    rules = ", ".join(finding.rule for finding in found.findings) or "nothing"
    return {"seconds": seconds, "bytes": taken / (count * length**2), "found": rules}


def main(length: int) -> None:
    table = Table("Function", "found", "seconds", "bytes for each number")
    for name in SUBJECTS:
        command = [sys.executable, "-m", "benchmarks.large_inputs", str(length), name]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        seen = json.loads(run.stdout)
        table.add_row(name, seen["found"], f"{seen['seconds']:.1f}", f"{seen['bytes']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    if len(sys.argv) > 2:
        print(json.dumps(measured(sys.argv[2], side)))
    else:
        main(side)
