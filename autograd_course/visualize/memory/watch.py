"""Watching the dispatcher: which tensors live, which operation runs, how many there were."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from autograd_doctor.memory import LiveStorages, storage_keys
from torch._C._autograd import _get_sequence_nr

from autograd_course.visualize.memory.ledger import Ledger
from autograd_course.visualize.memory.modules import Modules


class Watch(LiveStorages):
    """Notes of every operation its name, its arguments' and its results' storages.

    A node takes its number in the graph before its operation is dispatched, so that the first
    operation under a number is the node's own.
    """

    def __init__(self, ledger: Ledger, modules: Modules) -> None:
        super().__init__(ledger.known)
        self.ledger = ledger
        self.modules = modules
        self.names: dict[int, str] = {}
        self.paths: dict[int, str] = {}  # of the module whose forward ran
        self.reads: dict[int, set[int]] = {}
        self.makes: dict[int, set[int]] = {}
        self.counts = {"forward": 0, "backward": 0, "again": 0}
        self.born_in_backward: set[int] = set()
        self._aside = False
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
            self.reads[number], self.makes[number] = read, storage_keys(result)
        self.note(result)
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
        found = self.read(arguments)
        if self.ledger.phase == "forward" or torch.is_grad_enabled():
            self.last_read |= dict.fromkeys(found, self.tick)
        return found

    def born(self, key: int, size: int) -> None:
        """Tell the ledger of a storage that was made."""
        self.ledger.lived(size)
        if self.ledger.phase == "backward":
            self.born_in_backward.add(key)

    def died(self, key: int, size: int) -> None:
        """Tell the ledger of a storage that is gone."""
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
