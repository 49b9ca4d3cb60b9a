"""The base class of the course's exceptions, and a helper that quotes a learner's exception."""

from __future__ import annotations

import traceback


class CourseError(Exception):
    """The base class of all exceptions that the course defines."""


class OneSentenceError(CourseError):
    """An exception that notebooks show as its message, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython and notebooks print instead of a traceback."""
        return [str(self)]


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message. If there is none, name the stub if any."""
    from autograd_doctor.extension import describe_error  # this imports PyTorch

    return (describe_error(error).text.splitlines() or [_stub(error) or "without a message"])[0]


def _stub(error: BaseException) -> str:
    """Return a clause with the name of the function that raised NotImplementedError."""
    if not isinstance(error, NotImplementedError):
        return ""
    raising = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return f"`{raising[-1].f_code.co_name}` is not written yet" if raising else ""
