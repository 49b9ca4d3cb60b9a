"""Time and memory of a diagnosis with large inputs, compared with gradcheck's fast mode.

    python -m benchmarks.large_inputs [--quick] [LENGTH]

Each input is a square matrix with LENGTH rows. The default is 2000, or 300 in a quick run, which
uses only two of the Functions. Each Function runs in a separate process, so the peak memory belongs
to this Function alone. Fast mode is the only baseline, because gradcheck's slow mode would build a
Jacobian with LENGTH⁴ elements.
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
from torch.autograd import Function, gradcheck

from autograd_course import diagnose
from benchmarks._common import ROOT, command_line, passes, some


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
    start = time.perf_counter()
    passes(gradcheck, SUBJECTS[name], inputs, fast_mode=True)
    peer = time.perf_counter() - start
    rules = ", ".join(finding.rule for finding in found.findings) or "nothing"
    used = taken / (count * length**2)
    return {"seconds": seconds, "ratio": seconds / peer, "bytes": used, "found": rules}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("length", metavar="LENGTH", type=int, nargs="?")
    parser.add_argument("--only", choices=SUBJECTS, help="measure one Function, print JSON")
    asked = parser.parse_args()
    length = asked.length or (300 if asked.quick else 2000)
    if asked.only:
        return print(json.dumps(measured(asked.only, length)))
    table = Table("Function", "found", "seconds", "÷ fast mode", "bytes for each number")
    for name in some(list(SUBJECTS), asked.quick, count=2):
        command = [sys.executable, "-m", "benchmarks.large_inputs", str(length), "--only", name]
        run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        seen = json.loads(run.stdout)
        figures = f"{seen['seconds']:.1f}", f"{seen['ratio']:.1f}", f"{seen['bytes']:.0f}"
        table.add_row(name, seen["found"], *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
