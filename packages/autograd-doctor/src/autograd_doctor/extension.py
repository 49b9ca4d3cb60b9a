"""The extension API for other tools, such as graders, widgets and sandboxes.

A diagnosis consists of two parts. The first part runs the user's code and returns
:class:`~.evidence.Evidence`, which is plain data. The second part judges the evidence and does not
run any code. A tool that implements :class:`Examiner` and calls :func:`conclude` can run the two
parts separately, for example in two processes.

Each name is imported when it is first used. A process that only collects evidence therefore does
not import the rules, nor any other code that judges.

All names in this module are typed and stay compatible within a minor version. These public modules
are equally stable: ``evidence`` (the data), ``memory`` (measurements), ``jacobians`` (both
Jacobians and their picture), ``card`` and ``formatting`` (the look of reports), ``repair`` (repairs
as data) and ``repair_search`` (the search for a repair). All other modules in this package can
change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autograd_doctor import _find

if TYPE_CHECKING:
    from autograd_doctor._collect import as_given, collect_evidence
    from autograd_doctor._execution.calls import describe_error, subclass_of
    from autograd_doctor._execution.captured_state import CapturedState
    from autograd_doctor._execution.isolation import preserve_global_state
    from autograd_doctor._execution.operations import OperationRecorder
    from autograd_doctor._execution.time_limit import TimeUp, time_limit
    from autograd_doctor._judge import judge_evidence
    from autograd_doctor._pipeline import Conclusion, Examiner, as_error, conclude
    from autograd_doctor._source import own_source
    from autograd_doctor._vetting import recheck_gradients, vet_evidence
    from autograd_doctor.errors import UnfitEvidenceError

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
    "subclass_of",
    "time_limit",
    "vet_evidence",
]

# The modules that run code come first, so that a process that only runs code imports no others.
_MODULES = (
    "errors",
    "_execution.time_limit",
    "_execution.isolation",
    "_execution.calls",
    "_execution.captured_state",
    "_execution.operations",
    "_source",
    "_collect",
    "_judge",
    "_pipeline",
    "_vetting",
)


def __getattr__(name: str) -> Any:
    return _find(name, _MODULES, __name__, __all__)
