"""How many wrong Functions do gradcheck and gradgradcheck catch, and how many does diagnose name?

    python -m benchmarks.detection [--quick]

The benchmark uses the wrong Functions in the test tables (``cases`` and ``answers`` in the folders
``tests/support``) for which the table names a rule. Each one runs on its own inputs in float64.
"Raise" counts the Functions that gradcheck or gradgradcheck rejects. "Names it" counts those whose
first finding is the rule in the table.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks._common import command_line, passes_checks, some

from answers import WRONG  # isort: skip
from answers.making import Wrong  # isort: skip
from cases import WITNESSES, Case  # isort: skip

from autograd_doctor import RULES

from autograd_course import diagnose
from autograd_course.grader import CATALOGUE, grade
from autograd_course.grader.exercise import FunctionExercise


def of_witness(case: Case) -> tuple[str, bool, bool]:
    """Return the rule, whether the checks raise an error, and whether diagnose names the rule."""
    first = diagnose(case.fn, case.inputs, **case.options).findings[:1]
    named = bool(first) and first[0].rule == case.rule
    return case.rule, not passes_checks(case.fn, case.inputs), named


def of_answer(wrong: Wrong) -> tuple[str, bool, bool]:
    """Do the same for a wrong answer. The checks use the simplest inputs for its exercise."""
    finding = grade(wrong.exercise, wrong.answer).finding
    plainest = next(iter(CATALOGUE[wrong.exercise].samples().values()))
    named = finding is not None and finding.rule == wrong.rule
    return wrong.rule, not passes_checks(wrong.answer, plainest), named


def main() -> None:
    quick = command_line(__doc__).parse_args().quick
    answers = [
        wrong
        for wrong in WRONG
        if wrong.rule in RULES and isinstance(CATALOGUE[wrong.exercise], FunctionExercise)
    ]
    looks = [partial(of_witness, case) for case in WITNESSES]
    looks += [partial(of_answer, wrong) for wrong in answers]
    total, by_checks, by_us = Counter[str](), Counter[str](), Counter[str]()
    for look in some(looks, quick, count=12):
        rule, was_caught, was_named = look()
        for key in (rule, "all"):
            total[key] += 1
            by_checks[key] += was_caught
            by_us[key] += was_named
    table = Table(
        "rule", "wrong Functions", "gradcheck or gradgradcheck raise", "diagnose names it"
    )
    for rule in sorted(total, key=lambda name: (name == "all", name)):
        table.add_row(rule, str(total[rule]), str(by_checks[rule]), str(by_us[rule]))
    Console().print(table)


if __name__ == "__main__":
    main()
