"""What the doctor says of the first witnesses of each rule: ``said.json``, which a reader can judge.

``PYTHONPATH=tests/support python -m cases.said`` writes it anew; what has changed is seen in the diff.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograd_doctor import Diagnosis, diagnose

from cases import WITNESSES
from cases.making import Case

FILE = Path(__file__).with_suffix(".json")
OF_A_RULE = 2  # witnesses
NOT_COMPARED = ("precision",)  # how much is lost differs from processor to processor


def chosen() -> Iterator[tuple[str, Case]]:
    seen: Counter[str] = Counter()
    for case in WITNESSES:
        seen[case.rule] += 1
        if seen[case.rule] <= OF_A_RULE and case.rule not in NOT_COMPARED:
            yield f"{case.rule}: {case.what}", case


def said(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return what the first finding says, without an exception's text: each PyTorch has its own."""
    finding = diagnosis.findings[0]
    evidence = dict(finding.evidence)
    text = evidence.pop("text", None)
    if "<lambda>" in evidence.get("line", ""):
        del evidence["line"]  # of the table, however that is broken into lines
    message = finding.message.replace(text, "…") if text else finding.message
    return {"severity": finding.severity, "message": message, "evidence": evidence}


def alike(one: Any, other: Any) -> bool:
    """Whether what is said is the same, in numbers up to what differs between processors."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-4)
    return bool(one == other)


def main() -> None:
    found = {name: said(diagnose(c.fn, c.inputs, **c.options)) for name, c in chosen()}
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
