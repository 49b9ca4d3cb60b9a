"""The doctor's messages about the cases. Only ``said.json`` pins the words of reports.

``PYTHONPATH=tests/support python -m cases.said`` rewrites the file. The diff then shows the
changes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograd_doctor import RULES, Diagnosis, diagnose

from cases import BRANCHES, WITNESSES
from cases.making import Case
from cases.worded import OF_WITNESSES

FILE = Path(__file__).with_suffix(".json")
OF_A_RULE = 2  # witnesses
NOT_COMPARED = ("precision",)  # the size of the loss depends on the processor
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def named(case: Case) -> str:
    return f"{case.rule}: {case.what}"


def chosen() -> Iterator[tuple[str, Case]]:
    """Yield each rule's first witnesses, the witnesses with their own wording, and all branches."""
    seen: Counter[str] = Counter()
    for case in WITNESSES:
        seen[case.rule] += 1
        is_first = seen[case.rule] <= OF_A_RULE and case.rule not in NOT_COMPARED
        if is_first or named(case) in OF_WITNESSES:
            yield named(case), case
    yield from ((named(case), case) for case in BRANCHES)


def said(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the first finding's contents without exception texts, which depend on PyTorch."""
    finding = diagnosis.findings[0]
    evidence = dict(finding.evidence)
    text = evidence.pop("text", None)
    if "<lambda>" in evidence.get("line", ""):
        del evidence["line"]  # the line belongs to the table of cases, whose line breaks may change
    message = finding.message.replace(text, "…") if text else finding.message
    told = {"severity": finding.severity, "message": message, "evidence": _rounded(evidence)}
    usual = finding.hint == RULES[finding.rule].hint
    return told if usual else told | {"hint": finding.hint}


def _rounded(value: Any) -> Any:
    """Return a value whose floats have few digits, so that a new run does not change the file."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def alike(one: Any, other: Any) -> bool:
    """Whether two messages are the same, up to small numerical differences between processors."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, str) and isinstance(other, str):
        if NUMBER.sub("#", one) != NUMBER.sub("#", other):
            return False
        return all(map(_close, NUMBER.findall(one), NUMBER.findall(other)))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or _close(one, other)
    return bool(one == other)


def _close(one: float | str, other: float | str) -> bool:
    return math.isclose(float(one), float(other), rel_tol=2e-3, abs_tol=1e-4)


def main() -> None:
    found = {name: said(diagnose(c.fn, c.inputs, **c.options)) for name, c in chosen()}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
