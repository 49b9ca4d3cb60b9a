"""Find submissions in a folder or zip file, read them, and assign them to students."""

from autograd_classroom.ingest.collecting import collect
from autograd_classroom.ingest.submission import Rejected, Submission

__all__ = ["Rejected", "Submission", "collect"]
