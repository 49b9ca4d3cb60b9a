"""Names from :mod:`autograd_doctor.memory` that lessons import from this module."""

from autograd_doctor.memory import (
    Kept,
    Largest,
    kept_bytes,
    kept_tensors,
    peak_bytes,
    stored_bytes,
)

__all__ = ["Kept", "Largest", "kept_bytes", "kept_tensors", "peak_bytes", "stored_bytes"]
