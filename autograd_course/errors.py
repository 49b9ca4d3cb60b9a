"""The root of the course's exceptions, and how a learner's exception is quoted."""

from __future__ import annotations


class CourseError(Exception):
    """The root of all exceptions that the course raises on its own."""


class OneSentenceError(CourseError):
    """Something was typed that is not known; the message says it all."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython, and so a notebook, prints instead of a traceback."""
        return [str(self)]


def first_line(error: BaseException) -> str:
    """Return the first line of what an exception says."""
    from autograd_doctor.extension import describe_error  # which imports PyTorch

    return (describe_error(error).text.splitlines() or ["without a message"])[0]
