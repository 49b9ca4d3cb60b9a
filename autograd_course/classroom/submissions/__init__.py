"""What people hand in: found under one folder or zip, read, and told apart by student."""

from autograd_course.classroom.submissions.collecting import collect
from autograd_course.classroom.submissions.submission import Rejected, Submission

__all__ = ["Rejected", "Submission", "collect"]
