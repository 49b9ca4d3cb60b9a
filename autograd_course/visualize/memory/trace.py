"""The tensors that autograd saves in one real forward and backward pass, as plain data."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import torch
from autograd_doctor.memory import iter_storages, storage_keys
from torch import Tensor

from autograd_course.engine import run_backward
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import raised
from autograd_course.visualize.kit.inputs import (
    as_callable,
    fresh_leaves,
    input_names,
    require_dense,
    title,
)
from autograd_course.visualize.memory.hooks import (
    CHECKPOINT,
    Graph,
    Modules,
    SavedTensors,
    Watch,
    nodes_behind,
)
from autograd_course.visualize.memory.isolation import Gradients, Reach, preserve_state
from autograd_course.visualize.memory.ledger import Entry, How, Kind, Ledger, Moment, Owner, Phase

AGAIN = "↻"  # marks the name of a node in a forward that backward recomputes


@dataclass(frozen=True)
class Kept:
    """A storage that autograd saves, counted once even if several tensors share it.

    ``owner`` is the node that saved it first, and ``also`` names the other nodes that saved it.
    ``op`` is the owner's operation, and ``module`` is the path of the module whose forward was
    running. ``role`` is the tensor's role in its owner (``input``, ``output`` or ``intermediate``).
    ``bytes`` is the size of the whole storage, and ``part`` is the size of the tensor in it.
    ``how`` is ``saved`` (by ``save_for_backward``), ``attribute`` (on the ctx of a custom Function,
    where hooks do not see it) or ``again`` (saved by a forward that backward recomputes).
    ``anyway`` names an input or parameter that already holds the storage, so saving the storage
    costs nothing. ``line`` is the line of the caller's code. ``born`` and ``freed`` are indices of
    events. ``freed`` is ``None`` if no event frees the storage.
    """

    id: int
    owner: str
    op: str
    module: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    part: int
    how: How
    anyway: str
    also: tuple[str, ...]
    line: str
    born: int
    freed: int | None

    @property
    def extra(self) -> int:
        """The number of bytes that saving the storage costs, or 0 if it is already resident."""
        return 0 if self.anyway else self.bytes

    def lives(self, event: int) -> bool:
        """Return whether the storage is still saved after an event."""
        return self.born <= event and (self.freed is None or event < self.freed)


@dataclass(frozen=True)
class Event:
    """One moment: a node saves tensors, a node runs in backward, or a storage is freed.

    ``saves``, ``again`` and ``frees`` contain ids of :class:`Kept`: storages that the event saves,
    storages that it saves although another node has already saved them, and storages that it frees.
    ``passed`` is the number of bytes that other saved-tensor hooks (``by``) received and discarded.
    ``kept`` is the number of bytes that are saved after the event, and ``high`` is the maximum
    during the event. ``alive`` and ``alive_high`` are the same numbers for all tensors that the
    call created, as the dispatcher sees them. ``allocated`` is the memory that the CUDA allocator
    has allocated since the start, or ``None`` on the CPU.
    """

    phase: Phase
    kind: Kind
    name: str = ""
    module: str = ""
    inside: str = ""
    by: str = ""
    saves: tuple[int, ...] = ()
    again: tuple[int, ...] = ()
    frees: tuple[int, ...] = ()
    passed: int = 0
    kept: int = 0
    high: int = 0
    alive: int = 0
    alive_high: int = 0
    allocated: int | None = None
    merged: int = 1


@dataclass(frozen=True)
class MemoryTrace:
    """One forward and one backward pass of ``title``, and everything that autograd saved.

    ``operations`` counts the operations of forward, and ``backward_operations`` counts the
    operations of backward. ``again_operations`` counts the operations of backward that recompute a
    forward, which run in grad mode. Views are not counted. ``again_modules`` counts the module
    calls inside backward.
    """

    title: str
    kept: tuple[Kept, ...]
    events: tuple[Event, ...]
    operations: int
    backward_operations: int
    again_operations: int
    again_modules: int = 0

    @property
    def peak(self) -> int:
        """The maximum number of bytes saved at any moment. Already resident bytes do not count."""
        return max(event.high for event in self.events)

    @property
    def peak_event(self) -> int:
        """The first event that reaches the peak."""
        return next(i for i, event in enumerate(self.events) if event.high == self.peak)

    @property
    def turn(self) -> int:
        """The event between forward and backward."""
        return next(i for i, event in enumerate(self.events) if event.kind == "turn")

    @property
    def between(self) -> int:
        """The number of bytes that are saved after forward and before backward."""
        return self.events[self.turn].kept

    @property
    def anyway(self) -> int:
        """The number of bytes in saved tensors that cost nothing, such as inputs and parameters."""
        return sum(item.bytes for item in self.kept if item.anyway)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as JSON-compatible data."""
        return asdict(self)


# --------------------------------------------------------------------------------------------------
# The run.
# --------------------------------------------------------------------------------------------------


def trace_memory(fn: Any, *inputs: Any) -> MemoryTrace:
    """Run ``fn(*inputs)`` and its backward pass once, and record what autograd saves and when.

    The backward pass starts with ones. Each storage counts once, from when a node saves a tensor to
    when the node releases it. Saved-tensor hooks see both events. Storages of inputs, parameters
    and other tensors that ``fn`` holds are already resident and cost nothing. Tensors that a custom
    Function stores as attributes of its ctx also count.

    The function preserves the caller's tensors, gradients, buffers, random states, grad mode and
    default dtype. It keeps no part of the graph alive.

    Args:
        fn: A ``torch.autograd.Function`` class (its ``.apply`` is called), a module, or any
            callable that returns a tensor or a tree of tensors.
        inputs: The arguments. Tensors are copied.

    Returns:
        The trace: the events in order, and the number of bytes that are saved after each event.

    Raises:
        TraceError: No input can have a gradient, the result contains no tensor that depends on the
            inputs, or ``fn`` or a backward raises an error.

    Example:
        >>> import torch
        >>> from autograd_course.visualize import trace_memory
        >>> trace_memory(torch.exp, torch.randn(8)).peak  # 8 float32 numbers, in bytes
        32
    """
    call = as_callable(fn, "memory_timeline")
    require_dense(inputs)
    reach = Reach.of(fn)
    arguments = fresh_leaves(inputs)
    known = reach.storages()
    for name, it in zip(input_names(fn, inputs, None), arguments, strict=True):
        known |= dict.fromkeys(storage_keys(it), name)
    ledger = Ledger(known, _allocator(arguments))
    run = _Run(ledger, Modules(reach.modules), title(fn))
    with preserve_state(reach) as gradients:
        run.forward(call, arguments)
        run.backward(gradients)
        run.drop()
    return _finished(title(fn), ledger, run.watch, run.saved, run.again_modules)


class _Run:
    """One forward and one backward pass."""

    def __init__(self, ledger: Ledger, modules: Modules, name: str) -> None:
        self.ledger, self.modules, self.name = ledger, modules, name
        self.watch = Watch(ledger, modules)
        self.saved = SavedTensors(ledger, self.watch, modules)
        self.outputs: list[Tensor] = []
        self.again_modules = 0

    def forward(self, call: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self.ledger.phase = "forward"
        try:
            with self._watching():
                result = call(*arguments)
        except Exception as error:
            raise TraceError(f"{self.name} raised {raised(error)}.") from error
        tensors = {id(it): it for _, _, it in iter_storages(result)}
        self.outputs = [it for it in tensors.values() if it.requires_grad]
        if not self.outputs:
            raise TraceError(
                f"{self.name} returned no tensor that autograd connects to its inputs; "
                "return the output, and check whether detach(), no_grad() or .item() cuts the "
                "graph."
            )
        self.saved.outputs = storage_keys(self.outputs)

    def backward(self, gradients: Gradients) -> None:
        ledger = self.ledger
        nodes = nodes_behind(self.outputs)
        self.graph = graph = Graph(ledger, nodes, self.saved.owners.values(), self.watch.paths)
        ledger.settle()
        graph.look_into_ctx()
        gradients.borrow(graph.leaves)
        ledger.begin("turn")
        calls = self.modules.calls
        try:
            with self._watching(), graph.watching():
                seeds = [torch.ones_like(output) for output in self.outputs]
                ledger.phase = "backward"
                # Do not call grad(), because reentrant checkpointing raises an error inside it.
                run_backward(self.outputs, seeds)
        except Exception as error:
            where = ledger.running.op if ledger.running else self.name
            raise TraceError(f"The backward of {where} raised {raised(error)}.") from error
        graph.check_ctx()
        self.again_modules = self.modules.calls - calls
        graph.let_go()

    def drop(self) -> None:
        """Delete the results and their graph, and then all objects in reference cycles."""
        ledger = self.ledger
        ledger.phase, ledger.running = "after", None
        ledger.begin("end", by="backward")
        ledger.settle()
        if ledger.held:
            ledger.begin("end", by="results")
            self.outputs = []
            ledger.settle()
        if ledger.held:
            ledger.begin("end", by="collector")
            _collect(ledger)
            ledger.settle()
        self.outputs = []
        ledger.closed = True

    def _watching(self) -> ExitStack:
        with ExitStack() as stack:
            for watching in (self.saved.watching(), self.modules.watching(), self.watch):
                stack.enter_context(watching)
            return stack.pop_all()


def _collect(ledger: Ledger) -> None:
    """Run the garbage collector until it frees nothing more.

    If leaking nodes refer to each other through the C++ graph, the garbage collector sees only the
    outermost node. Each collection therefore frees one layer of nodes.
    """
    held = -1
    while held != len(ledger.held) and ledger.held:
        held = len(ledger.held)
        gc.collect()


def _allocator(arguments: Sequence[Any]) -> Callable[[], int | None]:
    """Return a function that reads the CUDA allocator, or returns ``None`` on the CPU."""
    devices = {it.device for it in arguments if isinstance(it, Tensor) and it.is_cuda}
    if len(devices) != 1:
        return lambda: None
    (device,) = devices  # pragma: no cover - a GPU
    start = torch.cuda.memory_allocated(device)  # pragma: no cover
    return lambda: torch.cuda.memory_allocated(device) - start  # pragma: no cover


# --------------------------------------------------------------------------------------------------
# From the ledger of a run to its trace: names, roles and indices.
# --------------------------------------------------------------------------------------------------


def _finished(
    title: str, ledger: Ledger, watch: Watch, saved: SavedTensors, again_modules: int
) -> MemoryTrace:
    """Convert a ledger to a trace."""
    _number_names(_owners(ledger), watch)
    entries = {entry: number for number, entry in enumerate(ledger.entries)}
    moments = {moment: number for number, moment in enumerate(ledger.moments)}
    return MemoryTrace(
        title=title,
        kept=tuple(_kept(entry, entries, moments, watch, saved) for entry in ledger.entries),
        events=tuple(_event(moment, entries) for moment in ledger.moments),
        operations=watch.counts["forward"],
        backward_operations=watch.counts["backward"],
        again_operations=watch.counts["again"],
        again_modules=again_modules,
    )


def _owners(ledger: Ledger) -> list[Owner]:
    owners = [moment.owner for moment in ledger.moments]
    owners += [owner for entry in ledger.entries for owner in (entry.owner, *entry.also)]
    return sorted({owner for owner in owners if owner}, key=lambda owner: owner.seq)


def _number_names(owners: Iterable[Owner], watch: Watch) -> None:
    """Number repeated names in forward order."""
    count: Counter[str] = Counter()
    for owner in owners:
        owner.op = owner.op or watch.names.get(owner.seq, "operation")
        plain = f"{owner.op} {AGAIN}" if owner.again else owner.op
        count[plain] += 1
        owner.name = plain if count[plain] == 1 else f"{plain} {count[plain]}"


def _kept(
    entry: Entry,
    entries: dict[Entry, int],
    moments: dict[Moment, int],
    watch: Watch,
    saved: SavedTensors,
) -> Kept:
    return Kept(
        id=entries[entry],
        owner=entry.owner.name,
        op=entry.owner.op,
        module=entry.owner.module,
        role=entry.role or _role(entry, watch, saved),
        shape=entry.shape,
        dtype=entry.dtype,
        bytes=entry.bytes,
        part=entry.part,
        how=entry.how,
        anyway=entry.anyway,
        also=tuple(owner.name for owner in entry.also),
        line=entry.line,
        born=moments[entry.born],
        freed=None if entry.freed is None else moments[entry.freed],
    )


def _role(entry: Entry, watch: Watch, saved: SavedTensors) -> str:
    """Return the role of a saved tensor in the node that saved it.

    A tensor counts as a custom Function's output if a later operation or the caller reads it.
    """
    owner = entry.owner
    if owner.op == CHECKPOINT:
        return "input"
    if owner.custom:
        if entry.key in saved.inputs.get(owner, ()):
            return "input"
        read = watch.last_read.get(entry.key, -1) > saved.ticks[entry]
        return "output" if read or entry.key in saved.outputs else "intermediate"
    if entry.key in watch.makes.get(owner.seq, ()):
        return "output"
    return "input" if entry.key in watch.reads.get(owner.seq, ()) else "intermediate"


def _event(moment: Moment, entries: dict[Entry, int]) -> Event:
    def ids(found: Iterable[Entry]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(entries[entry] for entry in found))

    owner, inside = moment.owner, moment.inside
    return Event(
        phase=moment.phase,
        kind=moment.kind,
        name=owner.name if owner else "",
        module=owner.module if owner else "",
        inside=inside.name if inside else "",
        by=moment.by,
        saves=ids(moment.saves),
        again=ids(moment.again),
        frees=ids(moment.frees),
        passed=moment.passed,
        kept=moment.kept,
        high=moment.high,
        alive=moment.alive,
        alive_high=moment.alive_high,
        allocated=moment.allocated,
    )
