"""Find the answers in a notebook by id or name, together with the code that they need."""

from autograd_course.extraction.answer import Answer
from autograd_course.extraction.extracting import extract

__all__ = ["Answer", "extract"]
