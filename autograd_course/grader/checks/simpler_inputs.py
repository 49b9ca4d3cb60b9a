"""Find out why backward raises an exception by running it on simpler inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograd_doctor import Finding
from torch.autograd import Function

from autograd_course.execution import run_backward
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import Check


def raises_except_for(
    simpler: Callable[..., tuple[Any, ...] | None], message: str, hint: str
) -> Check:
    """Return a check that explains an exception in backward if simpler inputs do not raise it.

    Args:
        simpler: A callable that takes the inputs as separate arguments and returns simpler inputs.
            It returns ``None`` if there are no simpler inputs.
        message: A sentence about what makes the inputs difficult.
        hint: The hint for the learner.
    """

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        given = simpler(*inputs)
        if given is None or run_backward(function, given) is not None:
            return None
        return found("backward-raises", message, {}, hint)

    return check
