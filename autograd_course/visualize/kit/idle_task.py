"""Long work in slices, between the messages that the kernel gets."""

import asyncio
import time
from collections.abc import Iterator

SLICE_S = 0.008  # of work before whoever waits is let in
YIELD_S = 0.002  # for the page to be heard: a message takes several turns of the loop
DEBOUNCE_S = 0.08  # for the page to draw the answer, with all of a small machine


class IdleTask:
    """One piece of work at a time; what is new takes the place of what is not done yet.

    Where no event loop runs, as in a script, all is done at once.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, steps: Iterator[None]) -> None:
        """Go through the steps, each of which does its own part of the work."""
        self.stop()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            for _ in steps:
                pass
        else:
            self._task = loop.create_task(_in_slices(steps))

    @property
    def busy(self) -> bool:
        """Whether there is work that is not done yet."""
        return self._task is not None and not self._task.done()

    def stop(self) -> None:
        """Leave what is not done yet."""
        if self._task:
            self._task.cancel()
        self._task = None


async def _in_slices(steps: Iterator[None]) -> None:
    await asyncio.sleep(DEBOUNCE_S)
    begun = time.perf_counter()
    for _ in steps:
        if time.perf_counter() - begun > SLICE_S:
            await asyncio.sleep(YIELD_S)
            begun = time.perf_counter()
