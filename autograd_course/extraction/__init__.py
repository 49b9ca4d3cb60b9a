"""Find the answers in a notebook by id or name, and the code that each answer needs."""

from autograd_course.extraction.answer import Answer
from autograd_course.extraction.extracting import extract

__all__ = ["Answer", "extract"]
