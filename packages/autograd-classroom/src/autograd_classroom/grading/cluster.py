"""An executor that judges answers on many machines, using the workers of a Dask scheduler.

Start the workers with one thread each (``dask worker tcp://… --nthreads 1 --nworkers 4``), and
install the same version of the course on every machine. If a worker dies, Dask gives its tasks to
another worker. Dask abandons a task that has killed several workers.
"""

from __future__ import annotations

import atexit
import functools
import re
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from autograd_classroom.grading.executor import (
    GradingError,
    Judge,
    Opening,
    Outcome,
    RefusedError,
    read,
    refusal,
)

_PATIENCE = 15  # seconds to wait for the scheduler's reply and for the first worker
_ADDRESS = re.compile(r"\w+://.+:\d+")
_AHEAD = 2  # tasks to queue per worker, so that workers need not wait for their next task

if TYPE_CHECKING:
    from autograd_classroom.grading.task import Task


@dataclass(frozen=True)
class Cluster:
    """An :data:`Executor` that uses the Dask scheduler at an address like ``tcp://10.0.0.1:8786``."""

    address: str
    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield the outcome of each task; see :data:`Executor`."""
        asked: dict[Any, Task] = {}
        with _connected(self.address) as client:
            from distributed import as_completed

            done = as_completed(loop=client.loop)
            for task in islice(tasks, _AHEAD * len(client.nthreads())):
                done.add(self._submitted(client, asked, task))
            for future in done:
                outcome = _outcome(asked.pop(future.key), future, self.address)
                room = _AHEAD * len(client.nthreads()) - len(asked)  # the number of workers changes
                for task in islice(tasks, max(room, 0 if asked else 1)):
                    done.add(self._submitted(client, asked, task))
                yield outcome

    def _submitted(self, client: Any, asked: dict[Any, Task], task: Task) -> Any:
        future = client.submit(_judged, self.opening, task.to_json(), pure=False)
        asked[future.key] = task
        return future


def _outcome(task: Task, future: Any, address: str) -> Outcome:
    from distributed import KilledWorker

    if future.status == "cancelled":
        raise GradingError(f"the scheduler at {address} is gone: start it, and use --resume.")
    error = future.exception()
    if isinstance(error, KilledWorker):
        return Outcome(task, None)
    if error is not None:
        first = str(error).partition("\n")[0]
        raise GradingError(f"a worker cannot do its task ({type(error).__name__}: {first}).")
    return Outcome(task, read(future.result()))


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    if not _ADDRESS.fullmatch(address):  # Dask would wait, and print a traceback
        raise GradingError(
            f"{address} is not the address of a Dask scheduler: write an address such as tcp://10.0.0.1:8786."
        )
    try:
        from distributed import Client
    except ImportError:
        raise GradingError(
            "Dask is not installed. Run: pip install 'autograd-classroom[dask]'"
        ) from None
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise GradingError(f"no Dask scheduler answers at {address} ({first}).") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise GradingError(
                f"the scheduler at {address} has no workers: start some with "
                f"`dask worker {address} --nthreads 1`."
            ) from None
        yield client


# The functions below run in a thread of a Dask worker.


_alone = threading.Lock()  # judges share the random state and the warning filters of their process


def _judged(opening: Opening, text: str) -> str:
    with _alone:
        try:
            return _judge(opening)(text)
        except RefusedError as error:
            return refusal(error)


@functools.cache
def _judge(opening: Opening) -> Judge:
    """Return this process's judge. The first call opens it."""
    opened = ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(opening())
