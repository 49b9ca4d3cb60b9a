"""Watching the dispatcher: which tensors live, which operation runs, how many there were."""

import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._C._autograd import _get_sequence_nr

from autograd_course.doctor.running.dispatch import Watching
from autograd_course.visualize.memory.ledger import Ledger
from autograd_course.visualize.memory.modules import Modules
from autograd_course.visualize.memory.storages import keyed, keys


class Watch(Watching):
    """Notes of every operation its name, its arguments' and its results' storages.

    A node takes its number in the graph before its operation is dispatched, so that the first
    operation under a number is the node's own.
    """

    supports_higher_order_operators = True

    def __init__(self, ledger: Ledger, modules: Modules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ledger = ledger
        self.modules = modules
        self.names: dict[int, str] = {}
        self.paths: dict[int, str] = {}  # of the module whose forward ran
        self.reads: dict[int, set[int]] = {}
        self.makes: dict[int, set[int]] = {}
        self.counts = {"forward": 0, "backward": 0, "again": 0}
        self.born_in_backward: set[int] = set()
        self._aside = False
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._older: dict[int, weakref.ref[torch.UntypedStorage]] = {}  # not made by this call
        self.tick = 0
        self.last_read: dict[int, int] = {}  # by a forward, in ticks

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if not self._aside:
            self._count(func)
        number = _get_sequence_nr() - 1
        read = self._reading((args, kwargs))
        result = func(*args, **(kwargs or {}))
        if number not in self.names and not self._aside:
            self.names[number], self.paths[number] = _camel(func), self.modules.path
            self.reads[number], self.makes[number] = read, keys(result)
        for key, storage, _ in keyed(result):
            self._note(key, storage)
        return result

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take what runs in a block as no operation of the graph: a hook's own work."""
        before, self._aside = self._aside, True
        try:
            yield
        finally:
            self._aside = before

    def _count(self, func: Any) -> None:
        phase = self.ledger.phase
        between = self.ledger.now.kind == "turn"
        if phase in ("forward", "backward") and not between and not _only_looks(func):
            self.counts[phase] += 1
            self.counts["again"] += phase == "backward" and torch.is_grad_enabled()

    def _reading(self, arguments: Any) -> set[int]:
        self.tick += 1
        found = {key: storage for key, storage, _ in keyed(arguments)}
        for key, storage in found.items():
            if key not in self._alive and key not in self._older:
                self._older[key] = weakref.ref(storage, partial(self._forget, key))
        if self.ledger.phase == "forward" or torch.is_grad_enabled():
            self.last_read |= dict.fromkeys(found, self.tick)
        return set(found)

    def _forget(self, key: int, _: Any) -> None:
        self._older.pop(key, None)

    def _note(self, key: int, storage: torch.UntypedStorage) -> None:
        if key in self._alive or key in self._older or key in self.ledger.known:
            return
        size = storage.nbytes()
        self._alive[key] = weakref.ref(storage, partial(self._gone, key, size))
        self.ledger.lived(size)
        if self.ledger.phase == "backward":
            self.born_in_backward.add(key)

    def _gone(self, key: int, size: int, _: Any) -> None:
        self._alive.pop(key, None)
        self.born_in_backward.discard(key)
        self.ledger.lived(-size)


def _camel(func: Any) -> str:
    """Return an operation's name as the graph writes it: ``_softmax`` is ``Softmax``."""
    name = getattr(func, "_schema", None)
    plain = str(name.name if name else func).split("::")[-1].split(".")[0]
    return "".join(part.capitalize() for part in re.split("_+", plain) if part) or plain


def _only_looks(func: Any) -> bool:
    """Whether an operation returns a view and computes nothing."""
    return bool(getattr(func, "is_view", False))
