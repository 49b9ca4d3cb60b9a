"""Judge answers that run in a sandbox, using the same rules as ``grade``.

This code runs outside the sandbox.
"""

from autograd_classroom.judge.judge import judged

__all__ = ["judged"]
