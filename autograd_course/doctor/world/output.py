"""What user code prints while it is examined: kept up to a length, the rest only counted."""

from __future__ import annotations

import io

MOST = 2000  # characters that are kept


class Bounded(io.TextIOBase):
    """A stream that keeps the first characters that are written to it, and counts the others."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._kept, self._left_out = most, "", 0

    def writable(self) -> bool:
        """Whether it can be written to: yes."""
        return True

    def write(self, text: str) -> int:
        """Keep what fits."""
        room = self._most - len(self._kept)
        self._kept += text[:room]
        self._left_out += len(text[room:])
        return len(text)

    @property
    def text(self) -> str:
        """What was written, and how much of it is left out."""
        rest = f"\n… ({self._left_out:,} more characters)\n" if self._left_out else ""
        return self._kept + rest
