"""The limits for one submission. These numbers are defined only in this module.

The documentation states the same numbers, and a test compares them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The limits for the process that runs one submission, and for all processes that it starts.

    ``question`` is the time in seconds that an answer may spend on one of the judge's questions.
    After this time, Python code is interrupted, and the verdict names the line. ``wall`` is the
    wall-clock time after which the process is ended in any case. ``whole`` is the wall-clock time
    for all questions together, without the grader's own time. Together, all processes may use
    ``cpu`` seconds of CPU time. They may use ``memory`` bytes in addition to the memory of Python
    and PyTorch. Up to ``processes`` processes and threads may exist at a time, and up to
    ``started`` may ever start. They may write ``disk`` bytes in at most ``files`` files.
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
        """Return these limits with their times multiplied by a factor of at least 1."""
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
