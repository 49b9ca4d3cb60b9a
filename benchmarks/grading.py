"""What a grader cell costs, beside gradcheck and gradgradcheck on the same inputs, in one run.

    python benchmarks/grading.py

Every exercise's solution is graded on all its samples, which are checked by gradcheck and
gradgradcheck (slow mode) as well. The ratio is what compares between machines; the milliseconds are
this machine's.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["AUTOGRAD_COURSE_PROGRESS"] = str(Path(tempfile.mkdtemp()) / "progress.json")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from answers import RIGHT
from detection import leaf
from rich.console import Console
from rich.table import Table
from torch.autograd import gradcheck, gradgradcheck

from autograd_course.grader import CATALOGUE, grade
from autograd_course.grader.exercise import FunctionExercise

REPEATS = 7


def milliseconds(call: Callable[[], object]) -> float:
    """Return the median time of a call, after one to warm up."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])


def checks(exercise: str) -> None:
    for inputs in CATALOGUE[exercise].samples().values():
        leaves = [leaf(value) for value in inputs]
        gradcheck(RIGHT[exercise].apply, leaves)
        gradgradcheck(RIGHT[exercise].apply, leaves)


def main() -> None:
    table = Table("exercise", "grade, ms", "gradcheck + gradgradcheck, ms", "ratio")
    graded, ratios = [], []
    functions = [e.id for e in CATALOGUE.values() if isinstance(e, FunctionExercise)]
    for exercise in functions:
        ours = milliseconds(lambda e=exercise: grade(e, RIGHT[e]))
        theirs = milliseconds(lambda e=exercise: checks(e))
        graded.append(ours)
        ratios.append(ours / theirs)
        table.add_row(exercise, f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}")
    median, slowest = statistics.median, max
    table.add_section()
    table.add_row("median", f"{median(graded):.0f}", "", f"{median(ratios):.2f}")
    table.add_row("largest", f"{slowest(graded):.0f}", "", f"{slowest(ratios):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
