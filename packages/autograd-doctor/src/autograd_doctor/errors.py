"""The exceptions that this package raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograd_doctor.diagnosis import Diagnosis


class AutogradDoctorError(Exception):
    """The root of all exceptions that this package raises on its own."""

    __module__ = "autograd_doctor"  # where it is imported from; a traceback shows it


class CannotDiagnoseError(AutogradDoctorError):
    """``diagnose`` could not examine the Function: bad arguments, or a fault of its own.

    It is never a verdict on the Function.
    """

    __module__ = "autograd_doctor"


class WrongGradientError(AutogradDoctorError, AssertionError):
    """Raised by :meth:`Diagnosis.raise_if_wrong`; carries the diagnosis as ``.diagnosis``."""

    __module__ = "autograd_doctor"

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(str(diagnosis))
        self.diagnosis = diagnosis


class UnknownRuleError(AutogradDoctorError, LookupError):
    """No rule has this name; the message names the closest ones."""

    __module__ = "autograd_doctor"


class UnfitEvidenceError(AutogradDoctorError):
    """Evidence is not an answer to what was asked; the message completes "the answer …"."""

    __module__ = "autograd_doctor"
