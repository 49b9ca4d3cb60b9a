"""Code outside the sandbox that judges the answers inside, by the same rules as ``grade``."""

from autograd_classroom.judge.judge import judged

__all__ = ["judged"]
