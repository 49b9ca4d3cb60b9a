"""Which storages a call makes, and which of them are still alive."""

import weakref
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from autograd_doctor.memory.dispatch import Watching
from autograd_doctor.memory.storages import keyed


@dataclass(frozen=True)
class Made:
    """A storage that a call has made: its size, and the look of the tensor that came with it."""

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class Alive(Watching):
    """Follows every storage that operations make, from its first tensor to the end of its last.

    ``bytes`` are alive now, ``high`` is the most there were. A storage is older, and does not
    count, if an operation reads it before one has made it: inputs, parameters, buffers. What a
    kernel needs for itself and gives back before it returns is not seen. ``known`` are keys of
    storages that are older in any case.
    """

    supports_higher_order_operators = True

    def __init__(self, known: Container[int] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self.bytes = self.high = 0
        self.made: dict[int, Made] = {}  # by the storage's key, as long as it lives
        self._watched: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._older: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.read((args, kwargs))
        result = func(*args, **(kwargs or {}))
        self.note(result)
        return result

    def read(self, values: Any) -> set[int]:
        """Take storages that are met for the first time as older; return the keys of all."""
        found = {key: storage for key, storage, _ in keyed(values)}
        for key, storage in found.items():
            if key not in self.made and key not in self._older:
                self._older[key] = weakref.ref(storage, partial(self._forget, key))
        return set(found)

    def note(self, values: Any) -> None:
        """Count the storages among an operation's results that were not there before."""
        for key, storage, tensor in keyed(values):
            if key in self.made or key in self._older or key in self.known:
                continue
            made = Made(storage.nbytes(), tuple(tensor.shape), tensor.dtype)
            self.made[key] = made
            self._watched[key] = weakref.ref(storage, partial(self._gone, key))
            self.born(key, made.bytes)

    def born(self, key: int, size: int) -> None:
        """Count a storage that an operation has made."""
        self.bytes += size
        self.high = max(self.high, self.bytes)

    def died(self, key: int, size: int) -> None:
        """Count one as gone."""
        self.bytes -= size

    def _gone(self, key: int, _: Any) -> None:
        del self._watched[key]
        self.died(key, self.made.pop(key).bytes)

    def _forget(self, key: int, _: Any) -> None:
        self._older.pop(key, None)
