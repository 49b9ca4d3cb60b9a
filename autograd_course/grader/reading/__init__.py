"""Read the source of an answer, and find what no answer to its exercise may use.

Whatever the grader establishes in the process that runs an answer, the answer can forge there: it
can replace the functions that look at it. The source cannot be forged, because the judge parses it
outside. So an answer earns points only in a language in which the checks hold. Three things come of
a line of source:

- It uses what an answer may use (:mod:`.tables`). Nothing is said.
- It is *forbidden*: it reaches for the process itself, or for what this exercise asks the learner
  to do. An answer with such a line earns no points, and the message quotes the line and the reason.
- It is neither. The answer keeps its verdict, and the instructor gets a remark with the line.
"""

from autograd_course.grader.reading.reader import Reading, read
from autograd_course.grader.reading.sources import source_of

__all__ = ["Reading", "read", "source_of"]
