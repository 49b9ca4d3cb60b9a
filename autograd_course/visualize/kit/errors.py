"""The one error of the visualizers."""

from autograd_course.errors import CourseError


class TraceError(CourseError):
    """What was given cannot be traced or shown; the message is one sentence that says why.

    A notebook shows that sentence alone, without a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]
