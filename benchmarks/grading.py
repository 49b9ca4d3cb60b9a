"""The cost of a grader cell, compared with gradcheck and gradgradcheck on the same inputs.

    python -m benchmarks.grading [--quick]

The benchmark grades the solution of every exercise on all its samples. In the same run, gradcheck
and gradgradcheck (slow mode) check the solution on these samples. Between machines, compare only
the ratios, not the milliseconds.
"""

from __future__ import annotations

import statistics

from rich.console import Console
from rich.table import Table

from benchmarks._common import command_line, milliseconds, passes_checks, some

from answers import RIGHT  # isort: skip

from autograd_course.grader import CATALOGUE, grade
from autograd_course.grader.exercise import FunctionExercise


def checks(exercise: FunctionExercise) -> None:
    for inputs in exercise.samples().values():
        passes_checks(RIGHT[exercise.id], inputs)


def main() -> None:
    quick = command_line(__doc__).parse_args().quick
    table = Table("exercise", "grade, ms", "gradcheck + gradgradcheck, ms", "ratio")
    graded, ratios = [], []
    functions = [e for e in CATALOGUE.values() if isinstance(e, FunctionExercise)]
    for exercise in some(functions, quick):
        if exercise.needs and (lacking := exercise.needs()):
            print(f"{exercise.id} is skipped: {lacking}")
            continue
        repeats = 1 if quick else 7
        ours = milliseconds(lambda e=exercise: grade(e.id, RIGHT[e.id]), repeats)
        theirs = milliseconds(lambda e=exercise: checks(e), repeats)
        graded.append(ours)
        ratios.append(ours / theirs)
        table.add_row(exercise.id, f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}")
    median, slowest = statistics.median, max
    table.add_section()
    table.add_row("median", f"{median(graded):.0f}", "", f"{median(ratios):.2f}")
    table.add_row("largest", f"{slowest(graded):.0f}", "", f"{slowest(ratios):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
