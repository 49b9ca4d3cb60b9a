"""The messages between judge and sandbox: frames of JSON and tensors, which contain no code."""

from autograd_course.classroom.protocol.frames import Frame, Malformed, read, write

__all__ = ["Frame", "Malformed", "read", "write"]
