"""Outside the sandbox: judge the answers from inside by the rules of ``grade``."""

from autograd_course.classroom.judging.judge import judged

__all__ = ["judged"]
