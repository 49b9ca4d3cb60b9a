"""Long work in small pieces, between the messages that the kernel gets."""

import asyncio
import time
from collections.abc import Iterator

AT_ONCE = 0.008  # seconds of work before whoever waits is let in
BREATH = 0.002  # seconds for the page to be heard: a message takes several turns of the loop
REST = 0.08  # seconds for the page to draw the answer, with all of a small machine


class Leisure:
    """One piece of work at a time; what is new takes the place of what is not done yet.

    Where no event loop runs, as in a script, all is done at once.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, pieces: Iterator[None]) -> None:
        """Go through the pieces, each of which does its own part of the work."""
        self.stop()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            for _ in pieces:
                pass
        else:
            self._task = loop.create_task(_between(pieces))

    @property
    def busy(self) -> bool:
        """Whether there is work that is not done yet."""
        return self._task is not None and not self._task.done()

    def stop(self) -> None:
        """Leave what is not done yet."""
        if self._task:
            self._task.cancel()
        self._task = None


async def _between(pieces: Iterator[None]) -> None:
    await asyncio.sleep(REST)
    begun = time.perf_counter()
    for _ in pieces:
        if time.perf_counter() - begun > AT_ONCE:
            await asyncio.sleep(BREATH)
            begun = time.perf_counter()
