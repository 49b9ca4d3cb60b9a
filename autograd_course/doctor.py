"""Names from :mod:`autograd_doctor` that lessons import from this module."""

from autograd_doctor import (
    RULES,
    CannotDiagnoseError,
    Diagnosis,
    Finding,
    Rule,
    WrongGradientError,
    assert_gradients,
    diagnose,
)
from autograd_doctor.evidence import Evidence
from autograd_doctor.steps import (
    Step,
    Steps,
    check_element,
    compare_forward,
    compare_magnitudes,
    five_steps,
    run_backward,
    run_gradcheck,
)

DoctorError = CannotDiagnoseError

__all__ = [
    "RULES",
    "CannotDiagnoseError",
    "Diagnosis",
    "DoctorError",
    "Evidence",
    "Finding",
    "Rule",
    "Step",
    "Steps",
    "WrongGradientError",
    "assert_gradients",
    "check_element",
    "compare_forward",
    "compare_magnitudes",
    "diagnose",
    "five_steps",
    "run_backward",
    "run_gradcheck",
]
