"""What diagnosing may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograd_doctor.diagnosis import Diagnosis


class DoctorError(Exception):
    """``diagnose`` could not examine the Function: bad arguments, or a fault of its own.

    It is never a verdict on the Function.
    """

    __module__ = "autograd_course"  # where it is imported from; a traceback shows it


class WrongGradientError(AssertionError):
    """Raised by :meth:`Diagnosis.raise_if_wrong`; carries the diagnosis as ``.diagnosis``."""

    __module__ = "autograd_course"

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(str(diagnosis))
        self.diagnosis = diagnosis
