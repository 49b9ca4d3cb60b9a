"""What does diagnose say of Functions that others wrote and ship?

    pip install -e '.[third-party]'
    python benchmarks/false_errors.py

Prints one row for each Function of tests/third_party.py whose package is installed: the package's
version, whether gradcheck passes, what diagnose finds, and what an expert finds, with the reason.
"""

from __future__ import annotations

import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.autograd import Function, gradcheck

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from test_third_party import installed, serious, verdict
from third_party import ROWS, Shipped


def passes_gradcheck(shipped: Shipped) -> bool:
    subject, inputs = shipped.subject(), shipped.inputs()
    call = subject.apply if isinstance(subject, type) and issubclass(subject, Function) else subject
    asking = [v for v in inputs if isinstance(v, torch.Tensor) and v.requires_grad]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return gradcheck(call, [leaf(v, asking) for v in inputs])
        except Exception:
            return False


def leaf(value: object, asking: list[torch.Tensor]) -> object:
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    double = value.detach().clone() if value.is_complex() else value.detach().double()
    return double.requires_grad_(not asking or any(value is a for a in asking))


def main() -> None:
    table = Table("package", "version", "Function", "gradcheck", "diagnose", "expert", "why", "s")
    false = 0
    for shipped in filter(installed, ROWS):
        start = time.perf_counter()
        found = serious(verdict(shipped))
        seconds = time.perf_counter() - start
        false += found != shipped.verdict
        table.add_row(
            shipped.package,
            version(shipped.package),
            shipped.name,
            "passes" if passes_gradcheck(shipped) else "fails",
            ", ".join(found) or "nothing",
            "the same" if found == shipped.verdict else ", ".join(shipped.verdict) or "nothing",
            shipped.why,
            f"{seconds:.1f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    console.print(f"{table.row_count} Functions; diagnose and expert differ in {false}.")


if __name__ == "__main__":
    main()
