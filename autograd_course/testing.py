"""Gradients in a test suite: ``assert_gradients``."""

from __future__ import annotations

from typing import Any

from autograd_course.doctor import Diagnosis, DoctorError, diagnose


def assert_gradients(fn: Any, inputs: Any, *, warnings: bool = False, **options: Any) -> Diagnosis:
    """Fail with the report where a Function is wrong; return the diagnosis where it is not.

    ``fn``, ``inputs`` and the options are those of :func:`autograd_course.diagnose`. With
    ``warnings=True``, a warning fails as well.

    Raises :class:`~autograd_course.WrongGradientError`, an ``AssertionError`` that carries
    the diagnosis, and :class:`~autograd_course.DoctorError` for what cannot be examined.
    """
    __tracebackhide__ = True  # pytest shows the test's own line, and none of these
    try:
        diagnosis = diagnose(fn, inputs, **options)
    except DoctorError as refused:
        raise refused.with_traceback(None) from refused.__cause__
    diagnosis.raise_if_wrong(warnings=warnings)
    return diagnosis
