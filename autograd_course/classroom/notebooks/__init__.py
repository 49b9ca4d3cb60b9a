"""Read submitted bytes as a notebook, and recover as much as possible."""

from autograd_course.classroom.notebooks.cells import Cell, Notebook, UnreadableError
from autograd_course.classroom.notebooks.reading import read

__all__ = ["Cell", "Notebook", "UnreadableError", "read"]
