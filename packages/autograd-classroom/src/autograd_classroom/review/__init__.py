"""A local web page on which an instructor reads answers and gives points by hand."""

from autograd_classroom.review.server import Review

__all__ = ["Review"]
