"""Code outside the sandbox that judges the answers inside, by the same rules as ``grade``."""

from autograd_course.classroom.judging.judge import judged

__all__ = ["judged"]
