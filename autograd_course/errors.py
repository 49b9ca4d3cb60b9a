"""The base class of the course's exceptions, and a helper that quotes a learner's exception."""

from __future__ import annotations

NO_MESSAGE = "without a message"


class CourseError(Exception):
    """The base class of all exceptions that the course defines."""


class OneSentenceError(CourseError):
    """An exception that notebooks show as its message, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython and notebooks print instead of a traceback."""
        return [str(self)]


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    from autograd_doctor.extension import describe_error  # this imports PyTorch

    return (describe_error(error).text.splitlines() or [NO_MESSAGE])[0]
