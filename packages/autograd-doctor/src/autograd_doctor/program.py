"""The table of results for a program, with one verdict for each Function that the program called.

This module does not import PyTorch, because the process that prints the table may not need PyTorch.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from autograd_doctor.finding import Finding, Severity

WIDTH = 100
FORMAT = 1  # version of the data format

SECONDS = 60.0  # default time limit of an examination
ELSEWHERE = "another process examines it"


@dataclass(frozen=True)
class FunctionVerdict:
    """One row of the table: a Function, its calls, and the findings of ``diagnose``.

    ``module`` and ``name`` identify the class, and ``where`` is the file and line of its
    definition. For a custom operator, ``module`` is empty, ``name`` has the form ``mylib::square``,
    and ``where`` is the place of its ``backward``. ``calls`` counts all calls. ``differentiated``
    is true if autograd recorded at least one call. ``examined`` counts the diagnosed calls, and
    ``left_out`` counts the remaining recorded calls. ``findings`` come from all diagnosed calls,
    with errors first. ``report`` describes the call that shows the first finding. ``declared``
    lists the declared deviations, and ``why_not`` explains why no call was examined. ``known``
    holds the rules that the baseline lists for this Function.
    """

    module: str
    name: str
    where: str
    calls: int
    differentiated: bool
    findings: tuple[Finding, ...] = ()
    report: str = ""
    declared: tuple[str, ...] = ()
    why_not: str = ""
    examined: int = 0
    left_out: int = 0
    known: tuple[str, ...] = ()

    @property
    def function(self) -> str:
        """The full name, such as ``package.module.Name``, or ``mylib::square`` for an operator."""
        return f"{self.module}.{self.name}" if self.module else self.name

    @property
    def ok(self) -> bool | None:
        """``False`` if there is an error, ``None`` if no call was examined, else ``True``."""
        if self.errors:
            return False
        return None if self.why_not else True

    @property
    def errors(self) -> tuple[str, ...]:
        """The rules of the findings with severity ``"error"``."""
        return self._rules("error")

    @property
    def new(self) -> tuple[str, ...]:
        """The errors that the baseline does not contain."""
        return tuple(rule for rule in self.errors if rule not in self.known)

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        if self.errors:
            known = " (in the baseline)" if not self.new else ""
            designs = (it.evidence.get("stated_design") for it in self.findings)
            meant = next((f" ({what}?)" for what in designs if what), "")
            return f"✗ {', '.join(self.errors)}{meant}{known}"
        if self.why_not:
            return f"not examined: {self.why_not}"
        if warnings := self._rules("warning"):
            return f"⚠ {', '.join(warnings)}"
        if self.declared:
            return f"✓ by design (declared: {', '.join(self.declared)})"
        notes = self._rules("info")
        return f"✓ (notes: {', '.join(notes)})" if notes else "✓"

    def _rules(self, severity: Severity) -> tuple[str, ...]:
        return tuple(it.rule for it in self.findings if it.severity == severity)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON-compatible dictionary."""
        return {
            "function": self.function,
            "module": self.module,
            "name": self.name,
            "where": self.where,
            "calls": self.calls,
            "differentiated": self.differentiated,
            "examined": self.examined,
            "left_out": self.left_out,
            "ok": self.ok,
            "verdict": self.verdict,
            "why_not": self.why_not,
            "declared": list(self.declared),
            "new": list(self.new),
            "findings": [plain(finding.to_dict()) for finding in self.findings],
            "report": self.report,
        }


@dataclass(frozen=True)
class ProgramDiagnosis:
    """The verdicts on all Functions in a program.

    ``print`` shows a table and a report for each error. It also shows a report for a Function that
    is correct for this program but wrong for other inputs.

    ``rows`` holds one verdict for each Function. ``notes`` holds additional sentences, for example
    about calls that were left out. ``broken`` is true if the examination itself failed, or if a
    declaration could not be used. The rows for some Functions may then be missing.
    """

    rows: tuple[FunctionVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    broken: bool = False

    @property
    def ok(self) -> bool | None:
        """``False`` if a Function is wrong, ``None`` if a Function could not be examined, and
        ``True`` otherwise.
        """
        verdicts = {row.ok for row in self.rows} | ({None} if self.broken else set())
        return False if False in verdicts else None if None in verdicts else True

    @property
    def new(self) -> tuple[tuple[str, str], ...]:
        """The errors that the baseline does not contain.

        Each error is a pair of a Function's name and a rule.
        """
        return tuple((row.function, rule) for row in self.rows for rule in row.new)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole diagnosis as a JSON-compatible dictionary."""
        return {
            "version": FORMAT,
            "ok": self.ok,
            "functions": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return the whole diagnosis as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def compared(self, baseline: Collection[tuple[str, str]]) -> ProgramDiagnosis:
        """Return the same diagnosis, with the errors in the baseline marked as known."""
        rows = (
            replace(row, known=tuple(r for r in row.errors if (row.function, r) in baseline))
            for row in self.rows
        )
        return replace(self, rows=tuple(rows))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the lines of the table, the notes, and the reports of new errors."""
        yield from self.table(width)
        for note in self.notes:
            yield from wrap(note, width, break_on_hyphens=False, break_long_words=False)
        for row in self.rows:
            if row.report and (row.new or not row.errors):
                yield ""
                yield from row.report.splitlines()

    def table(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the lines of the table."""
        if not self.rows:
            yield "No custom autograd Function was called."
            return
        head = ("Function", "where defined", "calls", "verdict")
        cells = [(_short(row.name), row.where, str(row.calls), row.verdict) for row in self.rows]
        first, second, third = (max(len(row[i]) for row in (head, *cells)) for i in range(3))
        left = first + second + third + 6
        for name, where, calls, verdict in (head, *cells):
            lines = wrap(verdict, max(width - left, 40), break_on_hyphens=False) or [""]
            yield f"{name:<{first}}  {where:<{second}}  {calls:>{third}}  {lines[0]}".rstrip()
            yield from (" " * left + line for line in lines[1:])


def _short(name: str) -> str:
    return name.rpartition("<locals>.")[2]


# --------------------------------------------------------------------------------------------------
# Conversion to plain data, for other processes and for files.
# --------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Convert a value to JSON-compatible data.

    Convert infinity and nan to strings, because JSON numbers cannot represent them.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def packed(diagnosis: ProgramDiagnosis) -> bytes:
    """Convert a diagnosis to bytes for another process, which reads them with :func:`unpacked`."""
    return pickle.dumps(diagnosis)


def unpacked(data: bytes) -> ProgramDiagnosis:
    """Return the diagnosis from the bytes that :func:`packed` returned.

    Call it only with the bytes of a process that this process has started, because bytes from
    elsewhere can run code.
    """
    diagnosis = pickle.loads(data)
    assert isinstance(diagnosis, ProgramDiagnosis)
    return diagnosis


def merged(parts: Iterable[ProgramDiagnosis]) -> ProgramDiagnosis:
    """Combine the diagnoses of several processes, and add up their call counts."""
    rows: dict[tuple[str, str], FunctionVerdict] = {}
    notes: dict[str, None] = {}
    broken = False
    for part in parts:
        broken |= part.broken
        notes |= dict.fromkeys(part.notes)
        for row in part.rows:
            key = (row.function, row.where)
            rows[key] = _both(rows[key], row) if key in rows else row
    return ProgramDiagnosis(tuple(rows[key] for key in sorted(rows)), tuple(notes), broken)


def _both(one: FunctionVerdict, other: FunctionVerdict) -> FunctionVerdict:
    told = max(one, other, key=_told)
    return replace(
        told,
        calls=one.calls + other.calls,
        differentiated=one.differentiated or other.differentiated,
    )


def _told(row: FunctionVerdict) -> tuple[bool, bool, bool]:
    return bool(row.errors), not row.why_not, bool(row.why_not) and row.why_not != ELSEWHERE
