"""The messages between the judge and the sandbox. Each message is one frame."""

from autograd_classroom.protocol.frames import Frame, Malformed, read, write

__all__ = ["Frame", "Malformed", "read", "write"]
