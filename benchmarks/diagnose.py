"""What a full diagnosis costs, beside gradcheck and gradgradcheck on the same inputs, in one run.

    python benchmarks/diagnose.py

Takes every reference Function and the solution of every exercise, on all its samples, right code
and right away: what an engineer waits for on a Function that is in order. Both sides run in slow
mode, in float64, on copies. The ratio compares between machines; the milliseconds do not.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from answers import RIGHT
from detection import leaf
from grading import milliseconds
from reference_calls import REFERENCE_CALLS
from rich.console import Console
from rich.table import Table
from torch.autograd import Function, gradcheck, gradgradcheck

from autograd_course import diagnose
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import FunctionExercise

Call = tuple[Any, ...]


def subjects() -> Iterator[tuple[str, type[Function], list[Call], dict[str, Any]]]:
    """Yield a name, the Function, the inputs to examine it on, and what is declared of it."""
    for function in dict.fromkeys(function for function, _ in REFERENCE_CALLS):
        calls = [inputs for owner, inputs in REFERENCE_CALLS if owner is function]
        yield function.__name__, function, calls, {}
    for exercise in CATALOGUE.values():
        if isinstance(exercise, FunctionExercise):
            declared = {"reference": exercise.reference, "surrogate": exercise.surrogate}
            yield exercise.id, RIGHT[exercise.id], list(exercise.samples().values()), declared


def checked(function: type[Function], calls: list[Call]) -> None:
    for inputs in calls:
        leaves = [leaf(value) for value in inputs]
        gradcheck(function.apply, leaves, raise_exception=False)
        gradgradcheck(function.apply, leaves, raise_exception=False)


def diagnosed(function: type[Function], calls: list[Call], declared: dict[str, Any]) -> None:
    for inputs in calls:
        diagnose(function, inputs, **declared)


def main() -> None:
    table = Table("Function or exercise", "inputs", "diagnose, ms", "checks, ms", "ratio")
    ratios = []
    for name, function, calls, declared in subjects():
        ours = milliseconds(lambda f=function, c=calls, d=declared: diagnosed(f, c, d))
        theirs = milliseconds(lambda f=function, c=calls: checked(f, c))
        ratios.append(ours / theirs)
        table.add_row(name, str(len(calls)), f"{ours:.0f}", f"{theirs:.0f}", f"{ratios[-1]:.2f}")
    table.add_section()
    table.add_row("median", "", "", "", f"{statistics.median(ratios):.2f}")
    table.add_row("largest", "", "", "", f"{max(ratios):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
