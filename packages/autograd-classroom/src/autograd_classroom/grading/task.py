"""A worker's input and its result, as plain JSON data, for one machine or many."""

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

_MOST = 20_000  # maximum characters of evidence, because an answer can influence it
_REMARKS, _LONGEST = 40, 300  # maximum number of remarks, and maximum characters of each
_BITS = 128


@dataclass(frozen=True)
class Task:
    """Code to judge, without its students. ``grader`` must match the worker's version."""

    answer: Answer
    seed: int
    grader: str

    def to_json(self) -> str:
        """Return the task as JSON text."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Task:
        """Return the task that a JSON text describes."""
        data = json.loads(text)
        problems = tuple(data["answer"].pop("problems"))
        return Task(Answer(problems=problems, **data["answer"]), data["seed"], data["grader"])


def seed_for(run: Run, answer: Answer) -> int:
    """Return the secret seed of an answer's inputs, which is different for each code in a run.

    Equal code has the same seed, so it needs to be judged only once. The gradebook stores the seed
    with the verdict, so that the verdict can be reproduced.
    """
    digest = hashlib.sha256(f"{run.seed}/{answer.exercise}/{answer.hash}".encode()).digest()
    return int.from_bytes(digest, "big") % (1 << _BITS)


def told(verdict: Verdict, seconds: float) -> str:
    """Return a verdict as JSON text."""
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
