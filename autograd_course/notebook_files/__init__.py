"""Read submitted bytes as a notebook, and recover as much as possible."""

from autograd_course.notebook_files.cells import Cell, Notebook, UnreadableError
from autograd_course.notebook_files.reading import read

__all__ = ["Cell", "Notebook", "UnreadableError", "read"]
