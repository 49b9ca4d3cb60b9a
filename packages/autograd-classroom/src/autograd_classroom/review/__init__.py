"""A local web page where an instructor reads answers and awards points by hand."""

from autograd_classroom.review.server import Review

__all__ = ["Review"]
