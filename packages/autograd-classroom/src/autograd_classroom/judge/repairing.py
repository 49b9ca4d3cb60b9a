"""Search for an edit that repairs a wrong answer, and show the edit to the instructor.

The judge derives candidate edits from the answer's source code, and the sandbox runs the edited
code. The search may take only a fixed share of the judging time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.evidence import Expected
from autograd_doctor.extension import conclude
from autograd_doctor.repair import Repair
from autograd_doctor.repair_search import Question, search_repair_elsewhere
from torch import Tensor

from autograd_classroom.judge import seeds
from autograd_classroom.judge.asked import UnansweredError, unpacked
from autograd_classroom.judge.remote import Examiner, RemoteFunction
from autograd_classroom.protocol.evidence import REPAIR
from autograd_course.calls import as_tuple, differentiated, is_float
from autograd_course.engine import run_backward
from autograd_course.extraction import Answer
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.kinds.function import forward_verdict
from autograd_course.grader.verdict import RuleBroken, Verdict

SHARE = 0.2  # share of the judging time that the search for repairs may take
FIRST = 0.6  # seconds that a worker may spend before it has judged anything
LEAST = 0.05  # minimum seconds for a worthwhile search
LONGEST = 0.6  # maximum seconds per search; verification takes additional time


@dataclass
class Budget:
    """The seconds left for repair searches, and the edits that have repaired other answers."""

    left: float = FIRST
    known: dict[str, dict[Any, None]] = field(default_factory=dict)

    def earn(self, seconds: float) -> None:
        """Add a share of the seconds that the judge took."""
        self.left += SHARE * seconds

    @contextmanager
    def spent(self) -> Iterator[float]:
        """Yield the seconds that a search may take, and then subtract the seconds that it took."""
        begun = time.monotonic()
        try:
            yield min(self.left, LONGEST)
        finally:
            self.left -= time.monotonic() - begun


def with_repair(
    exercise: FunctionExercise,
    answer: Answer,
    remote: RemoteFunction,
    verdict: Verdict,
    budget: Budget,
) -> Verdict:
    """Search for a repair, and add it to the verdict's finding if the search succeeds in time."""
    finding = verdict.finding
    if verdict.status != "wrong" or finding is None or budget.left < LEAST:
        return verdict
    with budget.spent() as seconds:
        try:
            repair = _found(exercise, answer, remote, finding, seconds, budget)
        except Exception:  # if the search fails here or in the child, the verdict has no repair
            return verdict
    if repair is None:
        return verdict
    evidence = {**finding.evidence, REPAIR: repair.to_dict()}
    return replace(verdict, reason=RuleBroken(replace(finding, evidence=evidence)))


def _found(
    exercise: FunctionExercise,
    answer: Answer,
    remote: RemoteFunction,
    finding: Finding,
    seconds: float,
    budget: Budget,
) -> Repair | None:
    samples = seeds.samples(exercise, remote.secret)
    plainest = next(iter(samples.values()))
    inputs, evidence = remote.seen[-1] if remote.seen else (plainest, ())

    def computes(outputs: Any) -> bool:
        return forward_verdict(exercise, outputs, inputs) is None

    known = budget.known.setdefault(exercise.id, {})
    repair = search_repair_elsewhere(
        answer.cells,
        answer.name,
        finding,
        evidence,
        partial(_ask, remote),
        partial(_verified, exercise, remote, finding),
        computes=(_copies(plainest), computes),
        reference=exercise.reference,
        surrogate=exercise.surrogate,
        seed=seeds.about(remote.secret, "look", inputs),
        seconds=seconds,
        known=known,
    )
    if repair is not None:
        known.update(dict.fromkeys(repair.signatures))
    return repair


def _copies(inputs: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(it.detach() if isinstance(it, Tensor) else it for it in inputs)


def _ask(
    remote: RemoteFunction, edits: Sequence[Mapping[str, str]], question: Question
) -> list[Any]:
    """Send edits and a question to the child process. Return one reply for each edit."""
    said = {
        "ask": "edits",
        "edits": [dict(each) for each in edits],
        "wanted": list(question.wanted),
        "seed": seeds.about(remote.secret, "edits", question.inputs),
    }
    about = (*question.inputs, *(tuple(each) for each in question.sent))
    came = unpacked(remote.asked.ask(said | {"inputs": len(question.inputs)}, about))
    if not isinstance(came, tuple) or len(came) != len(edits):
        raise UnansweredError("the answer does not fit the edits.")
    return [_answer(each) for each in came]


def _answer(came: Any) -> list[Any] | None:
    """Return the child process's reply for one edit, or ``None`` if the reply is invalid."""
    if not isinstance(came, tuple):
        return None
    return [each if isinstance(each, tuple) else None for each in came]


# --------------------------------------------------------------------------------------------------
# Verify the repair with all rules, and with inputs that the search has not seen.
# --------------------------------------------------------------------------------------------------


def _verified(
    exercise: FunctionExercise, remote: RemoteFunction, finding: Finding, sources: Mapping[str, str]
) -> Repair | None:
    edited = replace(remote, sources=dict(sources), seen=[])
    secret = seeds.derived(remote.secret, "repair")
    others = seeds.samples(exercise, secret)
    for inputs in others.values():
        question = _question(exercise, inputs, secret)
        (answers,) = _ask(remote, [sources], replace(question, sent=(), expected=()))
        if answers is None or forward_verdict(exercise, answers[0], inputs) is not None:
            return None
        (answers,) = _ask(remote, [sources], question)
        if answers is None or not all(question.right(answers) or (False,)):
            return _removes(exercise, edited, finding)
    plainest = next(iter(others.values()))
    first, second = (seeds.about(secret, run, plainest) for run in ("look", "look again"))
    left = conclude(Examiner(edited, plainest), first, second).findings
    if any(exercise.is_failed_by(it) or exercise.is_failed_elsewhere(it) for it in left):
        return None
    return Repair("", (), tuple(others))


def _removes(exercise: FunctionExercise, edited: RemoteFunction, finding: Finding) -> Repair | None:
    """Return a repair that fixes a wrong ``forward`` but not every gradient, otherwise ``None``."""
    if finding.rule != "forward-mismatch":
        return None
    return Repair("", (), (), finding.rule, left="A gradient is still wrong.")


def _question(exercise: FunctionExercise, inputs: tuple[Any, ...], secret: int) -> Question:
    """Return a question with a random cotangent and the gradients that the exercise expects."""
    wanted = differentiated(inputs)
    leaves = [it.detach().requires_grad_(k in wanted) if is_float(it) else it
              for k, it in enumerate(inputs)]  # fmt: skip
    outputs = as_tuple((exercise.surrogate or exercise.reference)(*leaves))
    floats = [out for out in outputs if is_float(out)]
    rng = torch.Generator().manual_seed(seeds.about(secret, "cotangent", inputs))
    sent = tuple(torch.randn(out.shape, dtype=out.dtype, generator=rng) for out in floats)
    pairs = [(out, g) for out, g in zip(floats, sent, strict=True) if out.requires_grad]
    asked = [leaves[k] for k in wanted]
    grads = run_backward([out for out, _ in pairs], [g for _, g in pairs], asked)
    true = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, asked, strict=True)]
    expected = tuple(Expected(g, 1e-9 + 1e-6 * g.abs()) for g in true)
    return Question(_copies(inputs), tuple(wanted), (sent,), (expected,))
