"""Saved-tensor hooks that keep everything as it is, and tell the ledger."""

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from autograd_doctor.memory import iter_storages
from torch import Tensor
from torch._C import _current_graph_task_id
from torch._C._autograd import (
    _get_sequence_nr,
    _pop_saved_tensors_default_hooks,
    _push_saved_tensors_default_hooks,
)
from torch.autograd.graph import saved_tensors_hooks

from autograd_course.folders import OURS
from autograd_course.visualize.memory.applying import Applied
from autograd_course.visualize.memory.ledger import Entry, Ledger, Owner
from autograd_course.visualize.memory.modules import Modules
from autograd_course.visualize.memory.watch import Watch

_NOT_THEIRS = (str(Path(torch.__file__).parent), *map(str, OURS))
_CHECKPOINTING = torch.utils.checkpoint.__file__
CHECKPOINT = "checkpoint"  # it saves its inputs without a node of the graph
_OUTSIDE = -1  # the id of the graph task where no backward runs


class Slot:
    """What a node holds in place of a tensor; it goes when the node gives the tensor up."""

    def __init__(self, packed: Any, entries: list[Entry], release: Callable[[Entry], None]) -> None:
        self.packed, self.entries, self.release = packed, entries, release

    def __del__(self) -> None:
        for entry in self.entries:
            self.release(entry)


class SavedTensors:
    """Sees every tensor that a node saves, also where other hooks are in force.

    PyTorch asks only the innermost hooks. ``torch.utils.checkpoint`` has hooks of its own, and
    keeps nothing of what it is given in forward; in backward, when forward runs again, it keeps the
    tensors in a table. So each pair of hooks that is entered meanwhile is wrapped: in forward,
    tensors count that lie in what ``pack_hook`` returns; in backward, storages count as long as
    they live.
    """

    def __init__(self, ledger: Ledger, watch: Watch, modules: Modules) -> None:
        self.ledger, self.watch, self.modules = ledger, watch, modules
        self.owners: dict[tuple[Any, ...], Owner] = {}
        self.ticks: dict[Entry, int] = {}
        self.inputs: dict[Owner, set[int]] = {}  # of custom Functions
        self.outputs: set[int] = set()  # of the call
        self._applied = Applied()
        self._living: dict[int, Any] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Be in force inside a ``with`` block."""
        entering = saved_tensors_hooks.__enter__

        def entered(hooks: Any) -> None:
            _push_saved_tensors_default_hooks(
                partial(self._pass, hooks), lambda slot: hooks.unpack_hook(slot.packed)
            )

        _push_saved_tensors_default_hooks(self._pack, lambda slot: slot.packed)
        saved_tensors_hooks.__enter__ = entered  # type: ignore[method-assign]
        try:
            with self._applied.watching():
                yield
        finally:
            saved_tensors_hooks.__enter__ = entering  # type: ignore[method-assign]
            _pop_saved_tensors_default_hooks()

    def _pack(self, tensor: Tensor) -> Slot:
        frame = sys._getframe(1)
        owner = self._owner(frame)
        return Slot(tensor, self._hold(tensor, tensor, owner, frame), self.ledger.release)

    def _pass(self, hooks: Any, tensor: Tensor) -> Slot:
        """Let other hooks pack a tensor, and note what they keep of it."""
        frame = sys._getframe(1)
        owner, by = self._owner(frame), _called(hooks)
        if _current_graph_task_id() != _OUTSIDE:
            self._hold_while_it_lives(tensor, owner, frame)
            return Slot(self._repack(hooks, tensor, owner), [], self.ledger.release)
        with self.watch.aside():
            packed = hooks.pack_hook(tensor)
        entries = self._hold(packed, tensor, owner, frame, by)
        lost = [
            storage for key, storage, _ in iter_storages(tensor) if key not in self.ledger.known
        ]
        if lost and not entries:
            self.ledger.saving(owner, "pass", by, owner.seq).passed += tensor.nbytes
        return Slot(packed, entries, self.ledger.release)

    def _repack(self, hooks: Any, tensor: Tensor, owner: Owner) -> Any:
        """Let checkpoint pack again. It stops the forward that runs again when it has everything:

        the last operation has then saved its inputs, and is never dispatched. It is the one whose
        backward is running.
        """
        try:
            with self.watch.aside():
                return hooks.pack_hook(tensor)
        except BaseException:
            if owner.seq not in self.watch.names and self.ledger.running:
                self.watch.names[owner.seq] = self.ledger.running.op
                mine = (entry.key for entry in self.ledger.entries if entry.owner is owner)
                self.watch.reads[owner.seq] = set(mine)
            raise

    def _hold(
        self, packed: Any, tensor: Tensor, owner: Owner, frame: FrameType, by: str = ""
    ) -> list[Entry]:
        found = [(key, storage.nbytes(), it) for key, storage, it in iter_storages(packed)]
        if not found:
            return []
        moment = self.ledger.saving(owner, "save", by, owner.seq)
        about = {"how": "again" if owner.again else "saved", "line": _line(frame)}
        entries = []
        for key, size, it in found:
            look = {"shape": tuple(it.shape), "dtype": _dtype(it), "part": it.nbytes, "role": ""}
            entries.append(self.ledger.hold(key, size, owner, moment, **look, **about))
            self.ticks.setdefault(entries[-1], self.watch.tick)
        return entries

    def _hold_while_it_lives(self, tensor: Tensor, owner: Owner, frame: FrameType) -> None:
        for key, storage, _ in iter_storages(tensor):
            if key in self.watch.born_in_backward and key not in self._living:
                (entry,) = self._hold(tensor, tensor, owner, frame)
                self._living[key] = weakref.ref(storage, partial(self._gone, key, entry))

    def _gone(self, key: int, entry: Entry, _: Any) -> None:
        self._living.pop(key, None)
        self.ledger.release(entry)

    def _owner(self, frame: FrameType) -> Owner:
        """Return the node that is saving: a custom Function's, or that of an operation."""
        number = _get_sequence_nr() - 1
        custom, inputs = self._custom(frame)
        again = _current_graph_task_id() != _OUTSIDE
        key = (number, custom, again)
        if key not in self.owners:
            made = Owner(custom, number, self.modules.path, again, custom=bool(custom))
            self.owners[key] = made
            self.inputs[made] = inputs
        return self.owners[key]

    def _custom(self, frame: FrameType) -> tuple[str, set[int]]:
        """Return what saves if it is no operation, and its inputs: a Function, or checkpoint."""
        itself = frame.f_code.co_name in ("save_inputs", "<listcomp>")
        if itself and frame.f_code.co_filename == _CHECKPOINTING:
            return CHECKPOINT, set()
        name, inputs = self._applied.saving() or ("", set())
        return CHECKPOINT if name == "_NoopSaveInputs" else name, inputs


def _called(hooks: Any) -> str:
    """Return what a pair of hooks is called: ``_checkpoint_hook`` is ``checkpoint``."""
    name = type(hooks).__name__
    if "checkpoint" in name or "recomputation" in name:
        return CHECKPOINT
    return "other saved-tensor hooks" if name == "saved_tensors_hooks" else name


def _line(frame: FrameType | None) -> str:
    """Return the line of the caller's code that is running."""
    import linecache

    while frame and frame.f_code.co_filename.startswith(_NOT_THEIRS):
        frame = frame.f_back
    if frame is None:
        return ""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()[:100]


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
