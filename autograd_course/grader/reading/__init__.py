"""Read an answer's source and find code that the answer must not use.

An answer can forge every measurement in the process that runs it, because it can replace the
functions that inspect it. It cannot forge its source, because a different process parses the
source. Therefore, an answer earns points only if its source contains no code that makes the checks
unreliable. There are three kinds of lines:

- An *allowed* line uses only code that an answer may use (:mod:`.tables`).
- A *forbidden* line accesses the process itself, or uses ready-made code for a part that the
  learner should write. An answer with such a line earns no points, and the message quotes the
  line and the reason.
- All other lines leave the verdict unchanged, but the grader reports them to the instructor.
"""

from autograd_course.grader.reading.reader import Reading, read
from autograd_course.grader.reading.skipping import keep_answer
from autograd_course.grader.reading.sources import source_of

__all__ = ["Reading", "keep_answer", "read", "source_of"]
