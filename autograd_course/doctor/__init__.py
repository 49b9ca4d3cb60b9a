"""The doctor: what is wrong with a custom autograd Function, by name.

``probe`` runs the Function and brings back :class:`Evidence`, ``truth`` puts the true gradients
beside it, and ``rules`` decide on the evidence alone.
"""

from autograd_course.doctor._pipeline import Sampler
from autograd_course.doctor._probes import Level
from autograd_course.doctor._rules import RULES
from autograd_course.doctor._rules.rule import Rule
from autograd_course.doctor.api import Examinable, Inputs, diagnose
from autograd_course.doctor.diagnosis import Diagnosis
from autograd_course.doctor.errors import DoctorError, WrongGradientError
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.finding import Finding, Severity
from autograd_course.doctor.steps import (
    Step,
    Steps,
    check_element,
    compare_forward,
    compare_magnitudes,
    five_steps,
    run_backward,
    run_gradcheck,
)

__all__ = [
    "RULES",
    "Diagnosis",
    "DoctorError",
    "Evidence",
    "Examinable",
    "Finding",
    "Inputs",
    "Level",
    "Rule",
    "Sampler",
    "Severity",
    "Step",
    "Steps",
    "WrongGradientError",
    "check_element",
    "compare_forward",
    "compare_magnitudes",
    "diagnose",
    "five_steps",
    "run_backward",
    "run_gradcheck",
]
