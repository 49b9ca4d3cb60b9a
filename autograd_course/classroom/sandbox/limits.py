"""What one submission may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds on the process that runs one submission, and on all that it starts.

    ``wall`` is the time for the answer to one question, in seconds, ``whole`` for those to all of
    them: what the grader itself takes does not count. All processes together have ``cpu`` seconds
    of computing, and ``memory``, in bytes, on top of what Python and PyTorch take. ``processes``
    may be there at a time, ``started`` ever, threads among them. ``disk`` bytes in at most
    ``files`` files may be written.
    """

    wall: float = 60.0
    whole: float = 180.0
    cpu: int = 60
    memory: int = 1024 * MIB
    processes: int = 64
    started: int = 1000
    disk: int = 64 * MIB
    files: int = 2000
    open_files: int = 256

    def to_dict(self) -> dict[str, float]:
        """Return the limits as JSON-compatible data."""
        return asdict(self)
