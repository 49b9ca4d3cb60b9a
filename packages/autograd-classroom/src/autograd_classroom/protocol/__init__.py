"""Messages between the judge and the sandbox: frames that hold JSON and tensors, but no code."""

from autograd_classroom.protocol.frames import Frame, Malformed, read, write

__all__ = ["Frame", "Malformed", "read", "write"]
