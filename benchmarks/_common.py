"""Helpers for several benchmarks: the command line, gradcheck as the baseline, and timing."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.autograd import Function, gradcheck, gradgradcheck

ROOT = Path(__file__).parents[1]
# The folders that contain the tables of right and wrong Functions and submissions.
sys.path[:0] = [
    str(ROOT / "tests/support"),
    *(str(folder) for folder in sorted(ROOT.glob("packages/*/tests/support"))),
]
# Benchmarks grade answers, which must not change the user's own progress.
_SCRATCH = tempfile.TemporaryDirectory(prefix="autograd-course-benchmark-")
os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(Path(_SCRATCH.name, "progress.json"))

Row = TypeVar("Row")


def command_line(about: str | None) -> ArgumentParser:
    """Return a benchmark's parser, with ``--quick``. ``about`` is the module's docstring."""
    parser = ArgumentParser(description=about, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only a small part, in seconds")
    return parser


def some(rows: Sequence[Row], quick: bool, count: int = 6) -> Sequence[Row]:
    """Return all rows of a table. For a quick run, return about ``count`` evenly spaced rows."""
    return rows[:: -(-len(rows) // count)] if quick else rows


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call, after one warm-up call."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])


def passes_checks(fn: Any, inputs: Sequence[Any]) -> bool:
    """Return whether both gradcheck and gradgradcheck pass on float64 copies of the inputs."""
    first, second = (passes(check, fn, inputs) for check in (gradcheck, gradgradcheck))
    return first and second


def passes(check: Callable[..., bool], fn: Any, inputs: Sequence[Any], **options: Any) -> bool:
    """Return whether one of PyTorch's checks passes. Any exception counts as a failure.

    ``fn`` receives copies, because an in-place Function must not modify a leaf.
    """
    call = fn.apply if isinstance(fn, type) and issubclass(fn, Function) else fn

    def on_copies(*given: Any) -> Any:
        return call(*(x.clone() if isinstance(x, torch.Tensor) else x for x in given))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return check(on_copies, leaves(inputs), **options)
        except Exception:
            return False


def leaves(inputs: Sequence[Any]) -> list[Any]:
    """Return double-precision copies that require grad if the inputs do. If none does, all do."""
    chosen = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    return [leaf(x, not chosen or any(x is one for one in chosen)) for x in inputs]


def leaf(value: Any, requires_grad: bool) -> Any:
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    double = value if value.is_complex() else value.double()
    return double.detach().clone().requires_grad_(requires_grad)
