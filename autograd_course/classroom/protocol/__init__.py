"""The messages between the judge and the sandbox, as frames of JSON and tensors without code."""

from autograd_course.classroom.protocol.frames import Frame, Malformed, read, write

__all__ = ["Frame", "Malformed", "read", "write"]
