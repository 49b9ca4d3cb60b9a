"""Write, test and trust custom autograd Functions in PyTorch.

These are the public functions. Python imports each of them on first use, so
``import autograd_course`` is fast:

``diagnose(fn, inputs)``
    names each mistake in a Function and explains it.
``assert_gradients(fn, inputs)``
    does the same in a test suite, where a mistake fails the test.
``grade(id, answer)``, ``hint(id)``, ``progress()``
    grade an answer to an exercise, show the next hint, and show your progress.
``explain(error)``
    explains a rule of ``diagnose`` or an error message from PyTorch, and shows how to fix it.
``gradient_flow(fn, *inputs)``
    draws a live picture of a backward pass.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd_doctor import (
        CannotDiagnoseError,
        Diagnosis,
        Finding,
        WrongGradientError,
        assert_gradients,
        diagnose,
    )

    from autograd_course.doctor import DoctorError
    from autograd_course.explaining import explain
    from autograd_course.grader import grade, hint, progress
    from autograd_course.visualize import gradient_flow

__version__ = "0.1.0"

__all__ = [
    "CannotDiagnoseError",
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

_NOT_THE_DOCTORS = {
    "DoctorError": "autograd_course.doctor",
    "explain": "autograd_course.explaining",
    "grade": "autograd_course.grader",
    "gradient_flow": "autograd_course.visualize",
    "hint": "autograd_course.grader",
    "progress": "autograd_course.grader",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'autograd_course' has no attribute {name!r}")
    return getattr(import_module(_NOT_THE_DOCTORS.get(name, "autograd_doctor")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
