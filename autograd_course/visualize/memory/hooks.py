"""Hooks that watch a run and report to the ledger. They do not change the run.

:class:`SavedTensors` sees the tensors that each node saves. :class:`Applied` sees which custom
Function saves them, and :class:`Modules` sees in which module the Function runs. :class:`Watch`
sees which operations run and which tensors exist. :class:`Graph` sees which node runs in backward,
and which attributes the node's ctx has.
"""

from __future__ import annotations

import linecache
import re
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.utils.checkpoint
from autograd_doctor.memory import LiveStorages, iter_storages, storage_keys
from torch import Tensor, nn
from torch._C import _current_graph_task_id
from torch._C._autograd import (
    _get_sequence_nr,
    _pop_saved_tensors_default_hooks,
    _push_saved_tensors_default_hooks,
)
from torch.autograd.function import FunctionMeta
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from autograd_course.folders import OURS
from autograd_course.visualize.kit.graph import GraphNode, is_custom, is_leaf, operation
from autograd_course.visualize.memory.ledger import Entry, Ledger, Moment, Owner

_NOT_THEIRS = (str(Path(torch.__file__).parent), *map(str, OURS))
_CHECKPOINTING = torch.utils.checkpoint.__file__
CHECKPOINT = "checkpoint"  # checkpoint saves its inputs without a node in the graph
_OUTSIDE = -1  # the id of the graph task when no backward runs

# --------------------------------------------------------------------------------------------------
# Saved-tensor hooks.
# --------------------------------------------------------------------------------------------------


class Slot:
    """The object that a node holds in place of a tensor until the node releases it."""

    def __init__(self, packed: Any, entries: list[Entry], release: Callable[[Entry], None]) -> None:
        self.packed, self.entries, self.release = packed, entries, release

    def __del__(self) -> None:
        for entry in self.entries:
            self.release(entry)


class SavedTensors:
    """Hooks that observe each tensor that a node saves, even under other saved-tensor hooks.

    PyTorch calls only the innermost hooks, and ``torch.utils.checkpoint`` has its own hooks. In
    forward, checkpoint's hooks do not keep the tensors that they receive. In backward, when
    checkpoint recomputes forward, its hooks keep the tensors in a table. So this class wraps each
    pair of hooks that becomes active. In forward, this class counts the tensors in the result of
    ``pack_hook``. In backward, it counts each storage as long as the storage exists.
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
        """Observe saved tensors during a ``with`` block."""
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
        """Let other hooks pack a tensor, and record the tensors that they keep."""
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
        """Let checkpoint pack a recomputed tensor, which may end the recomputation.

        Checkpoint stops the recomputed forward when it has all tensors. At this point, the last
        operation has saved its inputs, but PyTorch never dispatches the operation. The backward of
        this operation is running at the time.
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
        """Return the owner of the node that is saving: a custom Function or an operation."""
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
        """Return the name and inputs of the saving Function or checkpoint, if there is one."""
        itself = frame.f_code.co_name in ("save_inputs", "<listcomp>")
        if itself and frame.f_code.co_filename == _CHECKPOINTING:
            return CHECKPOINT, set()
        name, inputs = self._applied.saving() or ("", set())
        return CHECKPOINT if name == "_NoopSaveInputs" else name, inputs


def _called(hooks: Any) -> str:
    """Return the name of a pair of hooks: ``checkpoint`` for ``_checkpoint_hook``."""
    name = type(hooks).__name__
    if "checkpoint" in name or "recomputation" in name:
        return CHECKPOINT
    return "other saved-tensor hooks" if name == "saved_tensors_hooks" else name


def _line(frame: FrameType | None) -> str:
    """Return the line of the caller's code that is currently running."""
    while frame and frame.f_code.co_filename.startswith(_NOT_THEIRS):
        frame = frame.f_back
    if frame is None:
        return ""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()[:100]


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# --------------------------------------------------------------------------------------------------
# The custom Function that is saving, and its inputs. Hooks receive only the tensor.
# --------------------------------------------------------------------------------------------------


class Applied:
    """The custom Function that is saving its tensors, from the end of forward to the next node.

    ``apply`` looks up ``forward`` on the class, calls ``forward``, and then saves tensors. This
    class can observe only the lookup: from PyTorch 2.14 on, ``apply`` has no Python frame, and code
    such as ``cube = Cube.apply`` may have bound ``apply`` earlier.
    """

    def __init__(self) -> None:
        self._name = ""
        self._inputs: set[int] = set()
        self._when = (-1, -1)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe each call to a custom forward during a ``with`` block."""
        before = FunctionMeta.__getattribute__

        def looked_up(cls: type, name: str) -> Any:
            found = before(cls, name)
            return self._noting(cls, found) if name == "forward" else found

        FunctionMeta.__getattribute__ = looked_up  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            FunctionMeta.__getattribute__ = before  # type: ignore[method-assign]

    def saving(self) -> tuple[str, set[int]] | None:
        """If a Function is saving now, return its name and the storages of its inputs."""
        return (self._name, self._inputs) if self._when == _now() else None

    def _noting(self, cls: type, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)
        def noted(*args: Any, **kwargs: Any) -> Any:
            given = storage_keys((args, kwargs))
            result = forward(*args, **kwargs)
            # Do not set these earlier, because a forward can apply other Functions and create nodes
            # under enable_grad.
            self._name, self._inputs, self._when = cls.__name__, given, _now()
            return result

        return noted


def _now() -> tuple[int, int]:
    """Return the number of the newest node, and the current graph task."""
    return _get_sequence_nr(), _current_graph_task_id()


# --------------------------------------------------------------------------------------------------
# The module whose forward is running.
# --------------------------------------------------------------------------------------------------


class Modules:
    """A stack of module calls. A module is named by its path if known, or else by its class."""

    def __init__(self, roots: Iterable[nn.Module]) -> None:
        self._paths: dict[int, str] = {}
        for root in roots:
            for path, module in root.named_modules():
                self._paths.setdefault(id(module), path)
        self._stack: list[tuple[int, str]] = []
        self.calls = 0

    @property
    def path(self) -> str:
        """The path of the innermost running module, or ``""`` at the root or outside any module."""
        return self._stack[-1][1] if self._stack else ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Track all module calls during a ``with`` block."""
        handles = (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, _: Any) -> None:
        self.calls += 1
        self._stack.append((id(module), self._paths.get(id(module), type(module).__name__)))

    def _leave(self, module: nn.Module, *_: Any) -> None:
        while self._stack and self._stack.pop()[0] != id(module):
            pass  # a call that ended with an exception


# --------------------------------------------------------------------------------------------------
# The dispatcher: the tensors that exist, the running operation, and the number of operations.
# --------------------------------------------------------------------------------------------------


class Watch(LiveStorages):
    """A dispatch mode that records each operation's name and the storages it reads and returns.

    A node gets its number before PyTorch dispatches its operation. The first operation after a new
    number therefore belongs to the node with this number.
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
        self.last_read: dict[int, int] = {}  # the tick at which a forward last read a storage

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
        """Ignore the operations in a ``with`` block, which belong to a hook."""
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
        """Report a new storage to the ledger."""
        self.ledger.lived(size)
        if self.ledger.phase == "backward":
            self.born_in_backward.add(key)

    def died(self, key: int, size: int) -> None:
        """Report a freed storage to the ledger."""
        self.born_in_backward.discard(key)
        self.ledger.lived(-size)


def _camel(func: Any) -> str:
    """Convert an operation's name to the form that the graph uses: ``Softmax`` for ``_softmax``."""
    name = getattr(func, "_schema", None)
    plain = str(name.name if name else func).split("::")[-1].split(".")[0]
    return "".join(part.capitalize() for part in re.split("_+", plain) if part) or plain


def _only_looks(func: Any) -> bool:
    """Return whether an operation only returns a view and computes nothing."""
    return bool(getattr(func, "is_view", False))


# --------------------------------------------------------------------------------------------------
# The nodes of a graph during backward, and the attributes of their ctx.
# --------------------------------------------------------------------------------------------------


def nodes_behind(outputs: Iterable[Tensor]) -> list[GraphNode]:
    """Return all nodes of the graph in forward order, without duplicates."""
    found: set[GraphNode] = set()
    stack = [output.grad_fn for output in outputs if output.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [source for source, _ in node.next_functions if source is not None]
    return sorted(found, key=lambda node: node._sequence_nr())


class Graph:
    """The nodes of the graph: the owner of each node, and the hooks on the nodes."""

    def __init__(
        self,
        ledger: Ledger,
        nodes: Sequence[GraphNode],
        owners: Iterable[Owner],
        paths: Mapping[int, str],
    ) -> None:
        self.ledger = ledger
        self.nodes = [node for node in nodes if not is_leaf(node)]
        self.leaves = [node.variable for node in nodes if is_leaf(node)]
        plain = {owner.seq: owner for owner in owners if not owner.custom}
        custom = sorted((o for o in owners if o.custom), key=lambda owner: owner.seq)
        self.owners = [_owner(node, plain, custom, paths) for node in self.nodes]
        self._hidden: dict[int, dict[int, Entry]] = {}  # by node, by storage
        self._refs: list[weakref.ref[Any]] = []
        self._last = -1

    def look_into_ctx(self) -> None:
        """Add the tensors that custom Functions stored as attributes of their ctx.

        Hooks do not see these assignments, so the tensors are added at the position of their node.
        """
        for index, node in enumerate(self.nodes):
            found = list(iter_storages(vars(node))) if is_custom(node) else []
            if found:
                self._hidden[index] = self._enter(self.owners[index], vars(node), found)
                self._refs.append(weakref.ref(node, partial(self._dropped, index)))

    def _enter(
        self, owner: Owner, attributes: dict[str, Any], found: list[Any]
    ) -> dict[int, Entry]:
        ledger = self.ledger
        moment, kept = _moment_of(ledger, owner), ledger.kept
        last, high = ledger.now, ledger.now.high
        names = {key: name for name, it in attributes.items() for key, _, _ in iter_storages(it)}
        entries = {}
        for key, storage, it in found:
            entries[key] = entry = ledger.hold(
                key, storage.nbytes(), owner, moment, how="attribute", line="", part=it.nbytes,
                shape=tuple(it.shape), role=f"ctx.{names[key]}",
                dtype=_dtype(it),
            )  # fmt: skip
            if entry in moment.again:
                _begins_earlier(ledger, entry, moment, owner, f"ctx.{names[key]}")
        last.high = high  # the increase belongs to the earlier moment
        _raise_from(ledger.moments[ledger.moments.index(moment) :], ledger.kept - kept)
        moment.alive = max(moment.alive, moment.kept)
        moment.alive_high = max(moment.alive_high, moment.kept)
        return entries

    def _dropped(self, index: int, _: Any) -> None:
        for entry in self._hidden.pop(index, {}).values():
            self.ledger.release(entry)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Report to the ledger which node is running during a ``with`` block."""
        handles = [
            node.register_prehook(partial(self._runs, index))
            for index, node in enumerate(self.nodes)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _runs(self, index: int, _: Any) -> None:
        self.check_ctx()
        self._last, self.ledger.running = index, self.owners[index]
        self.ledger.begin("run", self.owners[index])

    def check_ctx(self) -> None:
        """Check whether the last node deleted an attribute of its ctx."""
        hidden = self._hidden.get(self._last)
        if hidden:
            left = {key for key, _, _ in iter_storages(vars(self.nodes[self._last]))}
            for key in [key for key in hidden if key not in left]:
                self.ledger.release(hidden.pop(key))

    def let_go(self) -> None:
        """Drop the references to the graph."""
        self.nodes, self.leaves = [], []


def _owner(
    node: GraphNode, plain: dict[int, Owner], custom: list[Owner], paths: Mapping[int, str]
) -> Owner:
    """Return the owner of the tensors that a node saved, or a new owner if there are none."""
    number, name = node._sequence_nr(), operation(node)
    new = Owner(name, number, paths.get(number, ""), custom=is_custom(node))
    if not is_custom(node):
        owner = plain.get(number) or new
        owner.op = name
        return owner
    # A custom forward in grad mode creates nodes, which use up numbers, before its own node saves.
    found = next((it for it in custom if it.op == name and it.seq >= number), None)
    if found is None:
        return new
    custom.remove(found)
    return found


def _moment_of(ledger: Ledger, owner: Owner) -> Moment:
    """Insert a moment for the attributes of a ctx at the position of its node, and return it."""
    places = [i for i, it in enumerate(ledger.moments) if it.seq <= owner.seq]
    place = places[-1]
    before = ledger.moments[place]
    moment = Moment("forward", "attribute", owner, seq=owner.seq)
    moment.kept = moment.high = before.kept
    moment.alive = moment.alive_high = before.alive
    moment.allocated = before.allocated
    ledger.moments.insert(place + 1, moment)
    return moment


def _begins_earlier(ledger: Ledger, entry: Entry, moment: Moment, owner: Owner, role: str) -> None:
    """Correct the entry of a storage that a ctx already held before another node saved it."""
    place, known = ledger.moments.index(moment), ledger.moments.index(entry.born)
    if known <= place:
        return
    entry.born.saves.remove(entry)
    entry.born.again.append(entry)
    moment.again.remove(entry)
    moment.saves.append(entry)
    entry.also = [entry.owner, *(other for other in entry.also if other is not owner)]
    entry.born, entry.owner, entry.how, entry.role = moment, owner, "attribute", role
    if not entry.anyway:
        _raise_from(ledger.moments[place:known], entry.bytes)


def _raise_from(moments: Iterable[Moment], size: int) -> None:
    for moment in moments:
        moment.kept += size
        moment.high += size
