"""Memory: kept for backward, the most there is at once, the largest tensor, a model's own."""

from autograd_doctor.memory.kept import Kept, kept_bytes, kept_tensors
from autograd_doctor.memory.largest import Largest
from autograd_doctor.memory.peak import peak_bytes
from autograd_doctor.memory.stored import stored_bytes

__all__ = ["Kept", "Largest", "kept_bytes", "kept_tensors", "peak_bytes", "stored_bytes"]
