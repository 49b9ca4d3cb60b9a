"""How much memory tensors take at most while a block of code runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from autograd_course.doctor.running.dispatch import Watching
from autograd_course.doctor.running.operations import memory


class Living(Watching):
    """A block in which the bytes of all tensors made and not yet freed are added up.

    What was there before counts nothing. Memory that a kernel takes and gives back within one
    operation is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: int = 0
        self.peak: int = 0
        self._known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and count what it made."""
        kwargs = kwargs or {}
        given = memory([*args, *kwargs.values()])
        result = func(*args, **kwargs)
        for storage in memory([result]) - given:
            if storage not in self._known:
                self._count(storage)
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        self._known[storage] = size
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self._freed, size)

    def _freed(self, size: int) -> None:
        self.bytes -= size


def peak_bytes(run: Callable[[], Any]) -> int:
    """Return the most bytes that tensors made by ``run`` took at one time."""
    with Living() as living:
        run()
    peak: int = living.peak
    return peak
