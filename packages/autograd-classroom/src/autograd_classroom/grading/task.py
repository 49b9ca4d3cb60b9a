"""A worker's input (a task) and output (a verdict), as JSON that can be sent to another machine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from autograd_classroom.gradebook import Run
from autograd_classroom.gradebook.records import as_json
from autograd_classroom.protocol.evidence import ALSO, WARNINGS
from autograd_course.extraction import Answer
from autograd_course.grader.verdict import Verdict

_MOST = 20_000  # maximum characters of evidence, because an answer can influence its size
_REMARKS, _LONGEST = 40, 300  # maximum number of remarks, and maximum characters per remark
_BITS = 128


@dataclass(frozen=True)
class Task:
    """An answer to judge, without student names.

    ``grader`` must match the worker's grader version.
    """

    answer: Answer
    seed: int
    grader: str

    def to_json(self) -> str:
        """Return the task as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Task:
        """Parse a task from JSON text."""
        data = json.loads(text)
        problems = tuple(data["answer"].pop("problems"))
        return Task(Answer(problems=problems, **data["answer"]), data["seed"], data["grader"])


def seed_for(run: Run, answer: Answer) -> int:
    """Return the secret seed for an answer's inputs, which depends on the run and on the code.

    Answers with the same code have the same seed, so a run judges identical code only once. The
    gradebook stores the seed with the verdict, so that instructors can reproduce the verdict.
    """
    digest = hashlib.sha256(f"{run.seed}/{answer.exercise}/{answer.hash}".encode()).digest()
    return int.from_bytes(digest, "big") % (1 << _BITS)


def told(verdict: Verdict, seconds: float) -> str:
    """Convert a verdict to JSON text."""
    finding = verdict.finding
    said = {
        "status": verdict.status,
        "message": verdict.message,
        "rule": finding.rule if finding else "",
        "evidence": _evidence(verdict),
        "remarks": [remark[:_LONGEST] for remark in verdict.remarks[:_REMARKS]],
        "seconds": seconds,
    }
    return as_json(said)


def _evidence(verdict: Verdict) -> dict[str, Any]:
    finding = verdict.finding
    if finding is None:
        told = [{"rule": w.rule, "message": w.message} for w in verdict.warnings]
        warnings = {WARNINGS: told} if told else {}
        return warnings if len(as_json(warnings)) <= _MOST else {}
    about = {"hint": finding.hint, "with": verdict.sample, ALSO: list(verdict.also)}
    evidence = {key: value for key, value in about.items() if value} | dict(finding.evidence)
    return evidence if len(as_json(evidence)) <= _MOST else about
