"""What one submission may use: the only place for these numbers.

The documents say the same; a test compares them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits for the process that runs one submission, and for all processes that it starts.

    ``question`` is the time in seconds that an answer may compute for one of the judge's questions.
    Python code is then interrupted, and the verdict names the line. ``wall`` is the time on the
    clock after which the process is ended, wherever it is. ``whole`` is the time on the clock for
    all questions together: what the grader itself takes does not count. All processes together have
    ``cpu`` seconds of computing, and ``memory``, in bytes, on top of what Python and PyTorch take.
    ``processes`` may be there at a time, ``started`` ever, threads among them. ``disk`` bytes in at
    most ``files`` files may be written.
    """

    question: float = 20.0
    wall: float = 40.0
    whole: float = 120.0
    cpu: int = 120
    memory: int = 1024 * MIB
    processes: int = 64
    started: int = 1000
    disk: int = 64 * MIB
    files: int = 2000
    open_files: int = 256

    def stretched(self, times: float) -> Limits:
        """Return the limits with so many times as much time, at least as much."""
        times = max(1.0, times)
        return replace(
            self,
            wall=self.wall * times,
            whole=self.whole * times,
            cpu=math.ceil(self.cpu * times),
        )

    def to_dict(self) -> dict[str, float]:
        """Return the limits as JSON-compatible data."""
        return asdict(self)
