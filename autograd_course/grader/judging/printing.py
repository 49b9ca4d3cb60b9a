"""What an answer prints: for each sample, the output of its latest forward or backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from autograd_doctor._execution.isolation import Bounded


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
