"""Write, test and trust custom autograd Functions in PyTorch.

The public calls, each imported on first use so that ``import autograd_course`` stays light:

``diagnose(fn, inputs)``
    says what is wrong with a Function, by name.
``assert_gradients(fn, inputs)``
    the same in a test suite.
``grade(id, answer)``, ``hint(id)``, ``progress()``
    the exercises of the course.
``explain(error)``
    what a rule of the diagnosis, or a message of PyTorch, means and wants.
``gradient_flow(fn, *inputs)``
    the live picture of a backward pass.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd_doctor import Diagnosis, DoctorError, Finding, WrongGradientError, diagnose
    from autograd_course.explaining import explain
    from autograd_course.grader import grade, hint, progress
    from autograd_doctor.testing import assert_gradients
    from autograd_course.visualize import gradient_flow

__version__ = "0.1.0"

__all__ = [
    "Diagnosis",
    "DoctorError",
    "Finding",
    "WrongGradientError",
    "assert_gradients",
    "diagnose",
    "explain",
    "grade",
    "gradient_flow",
    "hint",
    "progress",
]

_HOME = {
    "Diagnosis": "autograd_doctor",
    "DoctorError": "autograd_doctor",
    "Finding": "autograd_doctor",
    "WrongGradientError": "autograd_doctor",
    "assert_gradients": "autograd_doctor.testing",
    "diagnose": "autograd_doctor",
    "explain": "autograd_course.explaining",
    "grade": "autograd_course.grader",
    "hint": "autograd_course.grader",
    "progress": "autograd_course.grader",
    "gradient_flow": "autograd_course.visualize",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autograd_course' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
