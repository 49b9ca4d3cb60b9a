"""The extension API for other tools, such as graders, widgets and sandboxes.

A diagnosis consists of two parts. The first part runs the user's code and returns
:class:`~.evidence.Evidence`, which is plain data. The second part judges the evidence and does not
run any code. A tool that implements :class:`Examiner` and calls :func:`conclude` can run the two
parts separately, for example in two processes.

All names in this module are typed and stay compatible within a minor version. These public modules
are equally stable: ``evidence`` (the data), ``memory`` (measurements), ``jacobians`` (both
Jacobians and their picture), ``card`` and ``formatting`` (the look of reports), ``repair`` (repairs
as data) and ``repair_search`` (the search for a repair). All other modules in this package can
change at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from autograd_doctor._execution.calls import describe_error
from autograd_doctor._execution.captured_state import CapturedState
from autograd_doctor._execution.isolation import preserve_global_state
from autograd_doctor._execution.operations import OperationRecorder
from autograd_doctor._execution.time_limit import TimeUp, time_limit
from autograd_doctor._judge import judge
from autograd_doctor._pipeline import Conclusion, Examiner, as_error, as_given, conclude
from autograd_doctor._reference import establish
from autograd_doctor._source import own_source
from autograd_doctor._vetting import recheck_gradients, vet_evidence
from autograd_doctor.api import collect_evidence
from autograd_doctor.errors import UnfitEvidenceError
from autograd_doctor.evidence import Evidence
from autograd_doctor.finding import Finding

__all__ = [
    "CapturedState",
    "Conclusion",
    "Examiner",
    "OperationRecorder",
    "TimeUp",
    "UnfitEvidenceError",
    "as_error",
    "as_given",
    "collect_evidence",
    "conclude",
    "describe_error",
    "judge_evidence",
    "own_source",
    "preserve_global_state",
    "recheck_gradients",
    "time_limit",
    "vet_evidence",
]


def judge_evidence(
    evidence: Evidence,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    skip_rules: Collection[str] = (),
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Add the expected gradients to evidence, and apply all rules.

    Args:
        evidence: The result of :func:`collect_evidence` for one call.
        reference: As for :func:`~autograd_doctor.diagnose`.
        surrogate: As for :func:`~autograd_doctor.diagnose`.
        intentional: As for :func:`~autograd_doctor.diagnose`.
        skip_rules: The names of the rules to skip.
        seed: The seed that you passed to :func:`collect_evidence`.

    Returns:
        The findings, starting with the root cause. No second run has confirmed them; see
        :func:`conclude`.

    Raises:
        CannotDiagnoseError: The reference or surrogate raises an error on these inputs, or its
            outputs cannot be compared.
    """
    with preserve_global_state(seed):  # a reference may draw random numbers or warn
        return judge(establish(evidence, reference, surrogate, seed), intentional, skip_rules)
