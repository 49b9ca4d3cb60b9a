"""Training while the reader looks on."""

import asyncio
from collections.abc import Callable

from autograd_course.visualize.stelab.race import Race, RaceTrace

_BREATH = 0.002  # seconds between two pieces, in which the kernel hears the page


class Trainer:
    """Trains a race piece by piece on the running event loop; where none runs, all at once.

    ``show`` gets what there is after each piece. A race that is stopped, or followed by another,
    shows nothing more.
    """

    def __init__(self, show: Callable[[RaceTrace], None]) -> None:
        self._show = show
        self._task: asyncio.Task[None] | None = None

    def start(self, race: Race, ended: Callable[[], None]) -> None:
        """Train to the end, then call ``ended``, which a race that is stopped does not."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            while not race.done:
                race.advance()
            self._show(race.trace())
            ended()
            return
        self._task = loop.create_task(self._advance(race, ended))

    def stop(self) -> None:
        """Let the race end where it is."""
        self._task = None

    async def _advance(self, race: Race, ended: Callable[[], None]) -> None:
        mine = asyncio.current_task()
        while self._task is mine and not race.done:
            race.advance()
            self._show(race.trace())
            await asyncio.sleep(_BREATH)
        if self._task is mine:
            self._task = None
            ended()
