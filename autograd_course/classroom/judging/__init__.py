"""Outside the sandbox: verdicts on answers that came across the wall, by the rules of ``grade``."""

from autograd_course.classroom.judging.judge import Answer, judged

__all__ = ["Answer", "judged"]
