"""Do long work in small steps, so that the kernel can handle messages between steps."""

import asyncio
import time
from collections.abc import Iterator

SLICE_S = 0.008  # seconds of work before the kernel handles messages
YIELD_S = 0.002  # seconds for the page's messages, which need several turns of the event loop
DEBOUNCE_S = 0.08  # seconds during which the page can use the CPU to draw the answer


class IdleTask:
    """A runner for one task at a time. A new task replaces an unfinished task.

    If no event loop is running, as in a script, the whole task runs at once.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, steps: Iterator[None]) -> None:
        """Run the steps of a task one after another."""
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
        """Whether a task is unfinished."""
        return self._task is not None and not self._task.done()

    def stop(self) -> None:
        """Cancel the remaining steps."""
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
