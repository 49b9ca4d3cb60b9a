"""Find submissions in a folder or zip, read them, and assign them to students."""

from autograd_course.classroom.submissions.collecting import collect
from autograd_course.classroom.submissions.submission import Rejected, Submission

__all__ = ["Rejected", "Submission", "collect"]
