"""Find the mistakes in a custom :class:`torch.autograd.Function`.

``diagnose(fn, inputs)`` examines a Function and returns a report. ``assert_gradients(fn, inputs)``
does the same in a test. The decorator ``declare(surrogate=…, intentional=…)`` states which rules a
Function breaks on purpose. ``recording()`` records the Functions that a program calls. The
recording's ``diagnose()`` method examines each of these Functions. ``explain(rule)`` returns the
page about a rule.

``steps`` contains the five steps for finding a wrong gradient by hand, and ``memory`` measures how
much memory a call keeps for the backward pass. ``extension`` is for tools that build on this
package. Each name is imported when it is first used, so ``import autograd_doctor`` does not import
PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd_doctor._collect import Sampler
    from autograd_doctor._declaration import declare
    from autograd_doctor._pages import Explanation, explain
    from autograd_doctor._probes import Level
    from autograd_doctor._programs.examination import Recording, recording
    from autograd_doctor._rules import RULES, Rule
    from autograd_doctor.api import Examinable, Inputs, assert_gradients, diagnose
    from autograd_doctor.diagnosis import Diagnosis
    from autograd_doctor.errors import (
        AutogradDoctorError,
        CannotDiagnoseError,
        UnknownRuleError,
        WrongGradientError,
    )
    from autograd_doctor.finding import Finding, Severity
    from autograd_doctor.program import FunctionVerdict, ProgramDiagnosis
    from autograd_doctor.repair import Change, Repair

__version__ = "0.1.0"

__all__ = [
    "RULES",
    "AutogradDoctorError",
    "CannotDiagnoseError",
    "Change",
    "Diagnosis",
    "Examinable",
    "Explanation",
    "Finding",
    "FunctionVerdict",
    "Inputs",
    "Level",
    "ProgramDiagnosis",
    "Recording",
    "Repair",
    "Rule",
    "Sampler",
    "Severity",
    "UnknownRuleError",
    "WrongGradientError",
    "assert_gradients",
    "declare",
    "diagnose",
    "explain",
    "recording",
]

# The first two modules do not import PyTorch.
_MODULES = (
    "_declaration",
    "errors",
    "api",
    "diagnosis",
    "finding",
    "program",
    "repair",
    "_pages",
    "_collect",
    "_probes",
    "_programs.examination",
    "_rules",
)


def __getattr__(name: str) -> Any:
    return _find(name, _MODULES, __name__, __all__)


def _find(name: str, modules: Iterable[str], asked: str, public: Iterable[str]) -> Any:
    """Import modules until one defines a public name of the module ``asked``. Return its value."""
    for module in modules if name in public else ():
        found = vars(import_module(f"{__name__}.{module}"))
        if name in found:
            return found[name]
    raise AttributeError(f"module {asked!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
