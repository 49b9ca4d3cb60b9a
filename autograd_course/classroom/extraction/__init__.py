"""Of a notebook, the answers: found by id or by name, with what they need from other cells."""

from autograd_course.classroom.extraction.answer import Answer
from autograd_course.classroom.extraction.extracting import extract

__all__ = ["Answer", "extract"]
