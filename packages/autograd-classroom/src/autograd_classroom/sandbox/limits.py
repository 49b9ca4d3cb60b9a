"""The limits for one submission. These numbers are defined only in this module.

The documentation repeats these numbers, and a test checks that they agree.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The limits for the process that runs one submission, and for all processes that it starts.

    ``question`` is the CPU time limit, in seconds, for one question from the judge. After this
    time, the worker interrupts the Python code, and the verdict names the interrupted line.
    ``wall`` is the wall-clock limit for one question. After this time, the grader kills the
    process. ``whole`` is the wall-clock limit for all questions together, excluding the time that
    the grader itself needs.

    The other limits apply to all processes together. They can use ``cpu`` seconds of CPU time, and
    ``memory`` bytes of memory in addition to what Python and PyTorch use. At most ``processes``
    processes and threads can exist at the same time, and at most ``started`` can be started in
    total. The processes can write ``disk`` bytes in at most ``files`` files. Each process can have
    ``open_files`` open files.
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
        """Return a copy with ``wall``, ``whole`` and ``cpu`` multiplied by a factor.

        A factor below 1 has no effect.
        """
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
