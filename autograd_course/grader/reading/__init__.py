"""Read the source of an answer, and find code that no answer to its exercise may use.

An answer can forge every measurement in the process that runs it, because it can replace the
functions that inspect it. It cannot forge its source, because the judge parses the source in a
different process. So an answer earns points only if its source uses code for which the checks are
reliable. There are three kinds of lines:

- The line uses only code that an answer may use (:mod:`.tables`).
- The line is *forbidden*: it accesses the process itself, or uses ready-made code for a part that
  the learner should write. An answer with such a line earns no points, and the message quotes the
  line and the reason.
- All other lines. The answer keeps its verdict, and the instructor gets a remark about the line.
"""

from autograd_course.grader.reading.reader import Reading, read
from autograd_course.grader.reading.sources import source_of

__all__ = ["Reading", "read", "source_of"]
