"""Read the source of an answer, and find code that answers to this exercise must not use.

An answer can forge every measurement in the process that runs it, because it can replace the
functions that inspect it. It cannot forge its source, because a different process parses the
source. So an answer earns points only if the checks are reliable for the code in its source. There
are three kinds of lines:

- An *allowed* line uses only code that an answer may use (:mod:`.tables`).
- A *forbidden* line accesses the process itself, or uses ready-made code for a part that the
  learner should write. An answer with such a line earns no points, and the message quotes the
  line and the reason.
- Any other line does not change the verdict, but the instructor gets a remark about it.
"""

from autograd_course.grader.reading.reader import Reading, read
from autograd_course.grader.reading.sources import source_of

__all__ = ["Reading", "read", "source_of"]
