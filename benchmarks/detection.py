"""How many wrong Functions do gradcheck and gradgradcheck catch, and how many does diagnose name?

    python benchmarks/detection.py

Takes the wrong Functions of the test tables (tests/cases and tests/answers),
each on its own inputs in float64. "Caught" means that gradcheck or gradgradcheck raises; "named"
that the first finding of diagnose is the rule that stands in the table.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.autograd import Function, gradcheck, gradgradcheck

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from answers import WRONG
from cases import WITNESSES

from autograd_course import diagnose
from autograd_course.grader import CATALOGUE, grade


def caught(fn: Any, inputs: tuple[Any, ...]) -> bool:
    call = fn.apply if isinstance(fn, type) and issubclass(fn, Function) else fn
    leaves = [leaf(value) for value in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            gradcheck(call, leaves)
            gradgradcheck(call, leaves)
        except Exception:
            return True
    return False


def leaf(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    double = value if value.is_complex() else value.double()
    return double.detach().clone().requires_grad_()


def rows() -> Iterator[tuple[str, bool, bool]]:
    """Yield rule, caught by the checks, named by us."""
    for case in WITNESSES:
        first = diagnose(case.fn, case.inputs, **case.options).findings[:1]
        named = bool(first) and first[0].rule == case.rule
        yield case.rule, caught(case.fn, case.inputs), named
    for wrong in WRONG:
        finding = grade(wrong.exercise, wrong.answer).finding
        plainest = next(iter(CATALOGUE[wrong.exercise].samples().values()))
        named = finding is not None and finding.rule == wrong.rule
        yield wrong.rule, caught(wrong.answer, plainest), named


def main() -> None:
    total, by_checks, by_us = Counter[str](), Counter[str](), Counter[str]()
    for rule, was_caught, was_named in rows():
        for key in (rule, "all"):
            total[key] += 1
            by_checks[key] += was_caught
            by_us[key] += was_named
    table = Table("rule", "wrong Functions", "gradcheck + gradgradcheck raise", "diagnose names it")
    for rule in sorted(total, key=lambda name: (name == "all", name)):
        table.add_row(rule, str(total[rule]), str(by_checks[rule]), str(by_us[rule]))
    Console().print(table)


if __name__ == "__main__":
    main()
