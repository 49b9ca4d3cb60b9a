"""A page on the instructor's machine, to look at answers and to settle them by hand."""

from autograd_course.classroom.review.server import Review

__all__ = ["Review"]
