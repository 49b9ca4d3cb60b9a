"""Gradients in a test suite: ``assert_gradients``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from autograd_doctor import (
    Diagnosis,
    DoctorError,
    Examinable,
    Inputs,
    Level,
    Sampler,
    diagnose,
)


def assert_gradients(
    fn: Examinable,
    inputs: Inputs,
    *,
    warnings: bool = False,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    double_backward: bool | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    level: Level = "standard",
    time_limit: float = 30.0,
) -> Diagnosis:
    """Fail with the report of :func:`~autograd_course.diagnose` if a Function is wrong.

    It also fails if gradients could not be examined. The cost is that of ``diagnose``.

    Args:
        fn: A Function class, or a callable that calls some.
        inputs: The arguments of one example call; a single tensor can stand alone.
        warnings: Whether a warning fails, too.
        reference: As for ``diagnose``.
        surrogate: As for ``diagnose``.
        intentional: As for ``diagnose``.
        double_backward: As for ``diagnose``.
        sampler: As for ``diagnose``.
        seed: As for ``diagnose``.
        level: As for ``diagnose``.
        time_limit: As for ``diagnose``.

    Returns:
        The diagnosis, whose ``ok`` is ``True``.

    Raises:
        WrongGradientError: Something is wrong, or gradients could not be examined. It is an
            ``AssertionError``, its message is the report, and its ``diagnosis`` is the diagnosis.
        DoctorError: The arguments cannot be examined.

    Example:
        >>> import torch
        >>> from autograd_course import assert_gradients
        >>> from autograd_course.functions import Square
        >>> assert_gradients(Square, torch.randn(3, 4, dtype=torch.float64)).ok
        True
    """
    __tracebackhide__ = True  # pytest shows the test's own line, and none of these
    try:
        diagnosis = diagnose(
            fn,
            inputs,
            reference=reference,
            surrogate=surrogate,
            intentional=intentional,
            double_backward=double_backward,
            sampler=sampler,
            seed=seed,
            level=level,
            time_limit=time_limit,
        )
    except DoctorError as refused:
        raise refused.with_traceback(None) from refused.__cause__
    diagnosis.raise_if_wrong(warnings=warnings)
    return diagnosis
