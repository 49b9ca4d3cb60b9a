"""The exception that all visualizers raise."""

from autograd_course.errors import CourseError


class TraceError(CourseError):
    """Raised if arguments cannot be traced or shown. The message gives the reason in one sentence.

    A notebook shows only this sentence, without a traceback.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]
