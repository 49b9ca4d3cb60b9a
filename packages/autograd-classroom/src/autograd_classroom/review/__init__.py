"""A page on the instructor's machine that shows answers and accepts points by hand."""

from autograd_classroom.review.server import Review

__all__ = ["Review"]
