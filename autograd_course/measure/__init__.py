"""Memory in bytes: what is kept for backward, and the most there is at once."""

from autograd_course.measure.kept import Kept, kept_bytes, kept_tensors
from autograd_course.measure.peak import peak_bytes

__all__ = ["Kept", "kept_bytes", "kept_tensors", "peak_bytes"]
