"""Outside the sandbox: verdicts on answers that came across the wall, by the rules of ``grade``."""

from autograd_course.classroom.judging.judge import judged

__all__ = ["judged"]
