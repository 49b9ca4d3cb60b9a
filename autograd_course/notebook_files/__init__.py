"""Parse a submitted file as a notebook, and recover as much as possible if it is damaged."""

from autograd_course.notebook_files.cells import Cell, Notebook, UnreadableError
from autograd_course.notebook_files.reading import read

__all__ = ["Cell", "Notebook", "UnreadableError", "read"]
