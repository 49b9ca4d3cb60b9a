"""For tools that are built on this package: graders, widgets, sandboxes.

A diagnosis has two halves. One runs the user's code and returns :class:`~.evidence.Evidence`, which
is plain data. The other judges evidence and runs nothing. A tool can keep them apart, in two
processes for example, if it implements :class:`Examiner` and calls :func:`conclude`.

Everything here is typed and stays compatible within a minor version. So do the public modules
``evidence`` (the data), ``memory`` (measures), ``jacobians`` (both Jacobians and their picture),
``card`` and ``formatting`` (how reports look and read). Nothing else in this package does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from autograd_doctor._execution.calls import describe_error
from autograd_doctor._execution.captured_state import CapturedState
from autograd_doctor._execution.isolation import preserve_global_state
from autograd_doctor._execution.operations import OperationRecorder
from autograd_doctor._execution.time_limit import TimeUp, time_limit
from autograd_doctor._judge import judge
from autograd_doctor._pipeline import Conclusion, Examiner, conclude
from autograd_doctor._reference import establish
from autograd_doctor._repair.elsewhere import Ask, Elsewhere
from autograd_doctor._repair.runner import ByOutcome, Question
from autograd_doctor._repair.search import search
from autograd_doctor._repair.source import with_sources
from autograd_doctor._repair.verification import SECONDS
from autograd_doctor._source import own_source
from autograd_doctor._vetting import recheck_gradients, vet_evidence
from autograd_doctor.api import collect_evidence, run_edits
from autograd_doctor.errors import UnfitEvidenceError
from autograd_doctor.evidence import Evidence
from autograd_doctor.finding import Finding
from autograd_doctor.repair import Repair

__all__ = [
    "CapturedState",
    "Conclusion",
    "Examiner",
    "OperationRecorder",
    "Question",
    "TimeUp",
    "UnfitEvidenceError",
    "collect_evidence",
    "conclude",
    "describe_error",
    "edited",
    "judge_evidence",
    "own_source",
    "preserve_global_state",
    "recheck_gradients",
    "run_edits",
    "search_repair",
    "search_repair_elsewhere",
    "time_limit",
    "vet_evidence",
]


def search_repair(
    code: Any,
    finding: Finding,
    is_right: Callable[[Any], bool],
    passes: Callable[[Any], Repair | None],
) -> Repair | None:
    """Search for the edit of some code after which it passes a test of yours.

    Args:
        code: A Function class, or a plain function, whose source Python knows.
        finding: What is wrong. For ``forward-mismatch``, all edits are tried; for a rule of a
            contract, what its page advises.
        is_right: Whether edited code returns what it should for some inputs. It is called for
            every edit, so it should be fast.
        passes: Tries edited code on more, and returns a repair that says on what it is right;
            ``None`` if it is wrong there.

    Returns:
        The likeliest repair, ``None`` if none is found within a second of computing.
    """
    with suppress(TimeUp), time_limit(SECONDS):
        return search(ByOutcome(code, is_right, passes), finding)
    return None


def search_repair_elsewhere(
    cells: Sequence[str],
    name: str,
    finding: Finding,
    evidence: Sequence[Evidence],
    ask: Ask,
    verified: Callable[[Mapping[str, str]], Repair | None],
    *,
    computes: tuple[Sequence[Any], Callable[[Any], bool]] | None = None,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    seed: int = 0,
    seconds: float = 0.6,
    known: Collection[Any] = (),
) -> Repair | None:
    """Search for the repair of a Function that another process runs.

    This process makes the edits from the source and compares what comes back. The other one runs
    them with :func:`run_edits`.

    Args:
        cells: The source of the module, in parts that Python knows as ``<cell 1>`` and so on.
        name: The name of the class.
        finding: What is wrong.
        evidence: What the other process sent of the Function as it is.
        ask: Sends edits and a question to the other process, and returns its answers.
        verified: Tells on what the class with other methods (name to source) is right.
        computes: For ``forward-mismatch``: the inputs of a call, and whether its outputs are right.
        reference: As for :func:`~autograd_doctor.diagnose`.
        surrogate: As for :func:`~autograd_doctor.diagnose`.
        seed: The seed with which the evidence was collected.
        seconds: How long edits are tried.
        known: The ``signatures`` of repairs of the same exercise, which are tried first.

    Returns:
        The likeliest repair, ``None`` if none is found in time.
    """
    with preserve_global_state(seed):
        seen = [establish(each, reference, surrogate, seed) for each in evidence]
    runner = Elsewhere(cells, name, seen, ask, verified, computes)
    return search(runner, finding, seconds, known)


def edited(function: Any, sources: Mapping[str, str]) -> Any:
    """Return a subclass of a Function with methods of other source, or the Function if none is.

    Args:
        function: A Function.
        sources: Methods by name, each as the source of its ``def``.
    """
    return (with_sources(function, sources) or function) if sources else function


def judge_evidence(
    evidence: Evidence,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    skip_rules: Collection[str] = (),
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Judge evidence: add the expected gradients and ask every rule.

    Args:
        evidence: What :func:`collect_evidence` returned for one call.
        reference: As for :func:`~autograd_doctor.diagnose`.
        surrogate: As for :func:`~autograd_doctor.diagnose`.
        intentional: As for :func:`~autograd_doctor.diagnose`.
        skip_rules: Names of rules that are not asked.
        seed: The seed with which the evidence was collected.

    Returns:
        The findings, the cause first. They are not confirmed by a second run; see
        :func:`conclude`.

    Raises:
        CannotDiagnoseError: The reference or surrogate raises on these inputs, or its outputs
            cannot be compared.
    """
    with preserve_global_state(seed):  # a reference may draw random numbers, or warn
        return judge(establish(evidence, reference, surrogate, seed), intentional, skip_rules)
