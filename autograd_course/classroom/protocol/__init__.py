"""How questions and answers cross the wall: frames of JSON and tensors, nothing that runs."""

from autograd_course.classroom.protocol.frames import Frame, Malformed, read, write

__all__ = ["Frame", "Malformed", "read", "write"]
