"""What an answer prints: for each sample, the output of its latest forward or backward pass."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

MOST = 2000  # characters that are kept


class Bounded(io.StringIO):
    """A stream that keeps the first characters that are written to it, and counts the others."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self._most, self._left_out = most, 0

    def write(self, text: str) -> int:
        """Keep what fits."""
        kept = text[: self._most - self.tell()]
        super().write(kept)
        self._left_out += len(text) - len(kept)
        return len(text)

    @property
    def text(self) -> str:
        """What was written, and how much of it is left out."""
        rest = f"\n… ({self._left_out:,} more characters)\n" if self._left_out else ""
        return self.getvalue() + rest


class Printed:
    """The output of the latest pass on each sample, and of the latest pass of all."""

    def __init__(self) -> None:
        self._latest = Bounded()
        self._on: dict[int, Bounded] = {}

    @contextlib.contextmanager
    def during(self, inputs: Any = None) -> Iterator[None]:
        """Keep what the block prints, in place of what was printed for these inputs before."""
        self._latest = self._on[id(inputs)] = Bounded()
        with contextlib.redirect_stdout(self._latest):
            yield

    @property
    def latest(self) -> str:
        """What the latest pass printed; of a pass that was stopped, what it printed until then."""
        return self._latest.text

    def on(self, inputs: Any) -> str:
        """Return what the latest pass on these inputs printed."""
        return self._on[id(inputs)].text if id(inputs) in self._on else ""
