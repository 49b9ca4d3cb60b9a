"""The cost of a full diagnosis, compared with gradcheck and gradgradcheck on the same inputs.

    python -m benchmarks.diagnose [--quick]

The benchmark diagnoses every reference Function, and the solution of every exercise on all its
samples. This code is correct, so the result is the time that an engineer waits if there is nothing
to report. Both sides run in the same process, on copies of the inputs. The checks run in slow mode
and in float64. Between machines, compare only the ratios, not the milliseconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from torch.autograd import Function

from benchmarks._common import command_line, milliseconds, passes_checks, some

from answers import RIGHT  # isort: skip
from reference_calls import REFERENCE_CALLS  # isort: skip

from autograd_course import diagnose
from autograd_course.grader import CATALOGUE
from autograd_course.grader.exercise import FunctionExercise

Call = tuple[Any, ...]


def subjects() -> Iterator[tuple[str, type[Function], list[Call], dict[str, Any]]]:
    """Yield a name, the Function, its inputs, and the options of ``diagnose``."""
    for function in dict.fromkeys(function for function, _ in REFERENCE_CALLS):
        calls = [inputs for owner, inputs in REFERENCE_CALLS if owner is function]
        yield function.__name__, function, calls, {}
    for exercise in CATALOGUE.values():
        if isinstance(exercise, FunctionExercise):
            declared = {"reference": exercise.reference, "surrogate": exercise.surrogate}
            yield exercise.id, RIGHT[exercise.id], list(exercise.samples().values()), declared


def checked(function: type[Function], calls: list[Call]) -> None:
    for inputs in calls:
        passes_checks(function, inputs)


def diagnosed(function: type[Function], calls: list[Call], declared: dict[str, Any]) -> None:
    for inputs in calls:
        diagnose(function, inputs, **declared)


def main() -> None:
    quick = command_line(__doc__).parse_args().quick
    repeats = 1 if quick else 7
    table = Table("Function or exercise", "inputs", "diagnose, ms", "checks, ms", "ratio")
    ratios = []
    for name, function, calls, declared in some(list(subjects()), quick, count=3):
        ours = milliseconds(lambda f=function, c=calls, d=declared: diagnosed(f, c, d), repeats)
        theirs = milliseconds(lambda f=function, c=calls: checked(f, c), repeats)
        ratios.append(ours / theirs)
        table.add_row(name, str(len(calls)), f"{ours:.0f}", f"{theirs:.0f}", f"{ratios[-1]:.2f}")
    table.add_section()
    table.add_row("median", "", "", "", f"{statistics.median(ratios):.2f}")
    table.add_row("largest", "", "", "", f"{max(ratios):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
