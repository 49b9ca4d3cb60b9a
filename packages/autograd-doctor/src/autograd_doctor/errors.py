"""The exceptions that this package raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograd_doctor.diagnosis import Diagnosis


class AutogradDoctorError(Exception):
    """The base class of all exceptions in this package."""

    __module__ = "autograd_doctor"  # users import it from here, and a traceback shows this name


class CannotDiagnoseError(AutogradDoctorError):
    """``diagnose`` failed because of invalid arguments or a bug in the doctor.

    This exception is never a verdict on the Function.
    """

    __module__ = "autograd_doctor"


class WrongGradientError(AutogradDoctorError, AssertionError):
    """Raised by :meth:`Diagnosis.raise_if_wrong`.

    Its ``diagnosis`` attribute holds the diagnosis.
    """

    __module__ = "autograd_doctor"

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(str(diagnosis))
        self.diagnosis = diagnosis


class UnknownRuleError(AutogradDoctorError, LookupError):
    """No rule has this name. The message suggests the closest names."""

    __module__ = "autograd_doctor"


class UnfitEvidenceError(AutogradDoctorError):
    """The evidence does not match the question.

    The message completes a sentence that starts with "the answer …".
    """

    __module__ = "autograd_doctor"
