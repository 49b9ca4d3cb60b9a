"""Measure memory: what backward needs, a call's peak, the largest tensor, and a model's size."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DispatchMode",
    "Kept",
    "Largest",
    "LiveStorages",
    "iter_storages",
    "iter_tensors",
    "kept_bytes",
    "kept_tensors",
    "operation_name",
    "peak_bytes",
    "storage_keys",
    "stored_bytes",
]

# --------------------------------------------------------------------------------------------------
# The storages behind tensors of any layout, and the tensors in a nested value.
# --------------------------------------------------------------------------------------------------


# PyTorch's originals, because a call that is being measured could replace the names for a while.
STRIDED, storage_of = torch.strided, Tensor.untyped_storage
layout_of: Callable[[Tensor], torch.layout] = vars(torch._C.TensorBase)["layout"].__get__
_nbytes, _numel, _ref = torch.UntypedStorage.nbytes, Tensor.numel, weakref.ref


def storages(tensor: Tensor) -> list[torch.UntypedStorage]:
    """Return the storages of a tensor. A sparse tensor has several."""
    layout = layout_of(tensor)
    if layout is STRIDED:
        parts = [tensor]
    elif layout is torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    else:
        parts = [tensor]
    try:
        return [storage_of(part) for part in parts]
    except (RuntimeError, NotImplementedError):  # no memory of its own, like meta or opaque tensors
        return []


def iter_tensors(value: Any, inside: frozenset[int] = frozenset()) -> Iterator[Tensor]:
    """Yield all tensors in a value, including tensors inside lists, tuples, sets and dicts.

    ``inside`` holds the ids of the enclosing containers, because a container can contain itself.
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | set | frozenset | dict) and id(value) not in inside:
        for item in value.values() if isinstance(value, dict) else value:
            yield from iter_tensors(item, inside | {id(value)})


def iter_storages(value: Any) -> Iterator[tuple[int, torch.UntypedStorage, Tensor]]:
    """For each tensor in a value, yield a key, the tensor's storage, and the tensor itself.

    The key identifies the storage as long as the storage is alive.
    """
    for tensor in iter_tensors(value):
        for storage in storages(tensor):
            yield storage._cdata, storage, tensor


def storage_keys(value: Any) -> set[int]:
    """Return the keys of all storages in a value."""
    return {key for key, _, _ in iter_storages(value)}


# --------------------------------------------------------------------------------------------------
# The base class of all modes that watch operations as they run.
# --------------------------------------------------------------------------------------------------

_NEVER_COMPILED = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)


class DispatchMode(TorchDispatchMode):
    """A dispatch mode for eager code.

    Defining a subclass is cheap and does not change global state.

    PyTorch wraps a mode's ``__torch_dispatch__`` so that torch.compile does not trace it. The first
    such wrapping imports ``torch._dynamo``, which would delay a widget's first picture by two
    seconds. This class marks the method itself instead.
    """

    # torch.cond is one operation, no matter which branch it runs
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]
        looking_on = cls.__dict__.get("__torch_dispatch__")
        if looking_on is not None:
            set_code_exec_strategy(looking_on.__code__, _NEVER_COMPILED)

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            entered.enter_context(_compiled_later())
            super().__enter__()  # type: ignore[no-untyped-call]
            self._entered = entered.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._entered.close()


def operation_name(operation: Any) -> str:
    """Return the name of an ATen operation without its overload."""
    name: str = getattr(operation, "overloadpacket", operation).__name__
    return name


@contextmanager
def _compiled_later() -> Iterator[None]:
    """Run compiled code in eager mode, and restore the compiler's state afterwards.

    Once PyTorch has encountered a function while a mode such as FlopCounterMode is active, it no
    longer compiles that function. ``torch.cond`` compiles itself, so every later call to it in the
    same process would raise an error.
    """
    if "torch._dynamo" in sys.modules:
        with torch.compiler.set_stance("force_eager"):
            yield
        return
    yield
    if "torch._dynamo" in sys.modules:  # imported inside the block, so nothing was compiled before
        torch._dynamo.reset()


# --------------------------------------------------------------------------------------------------
# The storages that a call creates, and the storages that are still alive.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MadeStorage:
    """A storage that a call has created: its size, and a description of its first tensor."""

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class LiveStorages(DispatchMode):
    """A mode that tracks each storage from its creation until its last tensor is freed.

    ``bytes`` is the total size of the storages that are alive now, and ``high`` is the largest
    value of ``bytes`` so far. If an operation reads a storage that no operation has created, the
    storage is older and does not count. Examples are inputs, parameters and buffers. Temporary
    memory inside a kernel is not visible. ``known`` holds the keys of additional older storages.
    """

    supports_higher_order_operators = True

    def __init__(self, known: Container[int] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known = known
        self.bytes = self.high = 0
        self.made: dict[int, MadeStorage] = {}  # by the storage's key, as long as the storage lives
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
        """Mark unknown storages as older, and return the keys of all storages in the values."""
        found = {key: storage for key, storage, _ in iter_storages(values)}
        for key, storage in found.items():
            if key not in self.made and key not in self._older:
                self._older[key] = _ref(storage, partial(self._forget, key))
        return set(found)

    def note(self, values: Any) -> None:
        """Count the new storages in the results of an operation, and those that have grown."""
        self.measure_again(values)
        for key, storage, tensor in iter_storages(values):
            if key in self.made or key in self._older or key in self.known:
                continue
            made = MadeStorage(_nbytes(storage), tuple(tensor.shape), tensor.dtype)
            self.made[key] = made
            self._watched[key] = _ref(storage, partial(self._gone, key))
            self.born(key, made.bytes)

    def measure_again(self, values: Any) -> None:
        """Count the current size of storages that the call has created and resized."""
        for key, storage, tensor in iter_storages(values):
            made = self.made.get(key)
            if made and made.bytes != storage.nbytes():
                self.died(key, made.bytes)
                self.made[key] = MadeStorage(storage.nbytes(), tuple(tensor.shape), tensor.dtype)
                self.born(key, storage.nbytes())

    def born(self, key: int, size: int) -> None:
        """Count a storage that an operation has created."""
        self.bytes += size
        self.high = max(self.high, self.bytes)

    def died(self, key: int, size: int) -> None:
        """Record that a storage has been freed."""
        self.bytes -= size

    def _gone(self, key: int, _: Any) -> None:
        del self._watched[key]
        self.died(key, self.made.pop(key).bytes)

    def _forget(self, key: int, _: Any) -> None:
        self._older.pop(key, None)


# --------------------------------------------------------------------------------------------------
# A measured call: its arguments, its results, and the state that it restores.
# --------------------------------------------------------------------------------------------------


def fresh_leaves(inputs: Sequence[Any]) -> list[Any]:
    """Copy the arguments. Copies of differentiable tensors are new leaves that require grad.

    If some of the caller's tensors require grad, only the copies of these tensors require grad. A
    tensor that is passed twice is copied once so that its gradient includes both uses.
    """
    eligible = [x for x in inputs if isinstance(x, Tensor) and differentiable(x)]
    chosen = {id(x) for x in eligible if x.requires_grad} or {id(x) for x in eligible}
    copies = {
        id(x): x.detach().clone().requires_grad_(id(x) in chosen)
        for x in inputs
        if isinstance(x, Tensor)
    }
    return [copies.get(id(x), x) for x in inputs]


def differentiable(tensor: Tensor) -> bool:
    """Return whether a tensor's dtype allows a gradient."""
    return tensor.is_floating_point() or tensor.is_complex()


def call_with_graph(fn: Any, inputs: Sequence[Any]) -> list[Tensor]:
    """Return the tensors in the result of ``fn(*inputs)`` that have a graph.

    Call a Function class through ``.apply``.

    Raises ``TypeError`` if ``fn`` cannot be called and ``ValueError`` if its result has no graph.
    """
    if isinstance(fn, type) and issubclass(fn, torch.autograd.Function):
        fn = fn.apply
    if not callable(fn):
        raise TypeError(
            f"what is measured is a call, not {type(fn).__name__}: give the function and its "
            "inputs, as in kept_bytes(block, x) rather than kept_bytes(block(x))"
        )
    outputs = [tensor for tensor in iter_tensors(fn(*inputs)) if tensor.requires_grad]
    if not outputs:
        raise ValueError(
            "the call returned no tensor that requires a gradient: nothing is kept for a backward "
            "pass; look for detach(), no_grad() or .item() on the way"
        )
    return list({id(output): output for output in outputs}.values())


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Run a block with grad mode enabled, and restore PyTorch's random states afterwards."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)), torch.enable_grad():
        yield


@contextmanager
def borrow_gradients(roots: Iterable[Tensor]) -> Iterator[None]:
    """Clear ``.grad`` of the leaves behind some tensors, and restore it after the block."""
    before = [(leaf, leaf.grad) for leaf in find_leaves(roots)]
    for leaf, _ in before:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, gradient in before:
            leaf.grad = gradient


def find_leaves(roots: Iterable[Tensor]) -> list[Tensor]:
    """Return the leaves that accumulate gradients in a backward pass from ``roots``."""
    nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
    leaves, seen = [root for root in roots if root.is_leaf and root.requires_grad], set[Node]()
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        nodes += [behind for behind, _ in node.next_functions if behind is not None]
    return leaves


# --------------------------------------------------------------------------------------------------
# The memory that autograd keeps between forward and backward, in bytes.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """A storage that the graph keeps for backward.

    ``shape`` and ``dtype`` describe a tensor in this storage.

    ``anyway`` is true if the storage existed before the call, like the storage of an input or a
    parameter.
    """

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    anyway: bool


def kept_bytes(fn: Callable[..., Any], *inputs: Any, anyway: bool = False) -> int:
    """Return the number of bytes that ``fn(*inputs)`` keeps for its backward pass.

    Each storage counts once.

    This function calls ``fn`` with copies of ``inputs`` and deletes the results so that only the
    graph remains. The number includes all memory that the call has created and that the graph keeps
    alive: saved tensors, attributes of a ``ctx``, the inputs of a checkpoint, and an output if
    ``backward`` needs it.

    Whole storages count, so a saved slice counts as much as the tensor that it belongs to. Sizes
    are the requested sizes, before an allocator rounds them up. Memory that no operation creates is
    not visible, such as a copy of the random state (about 5 KB). The call really runs, so it can
    update a module's buffers. Afterwards, PyTorch's random state is restored.

    Args:
        fn: A Function class (called through ``apply``), a module, or any callable.
        inputs: The arguments of the call. If some of these tensors require grad, only the copies of
            these tensors require grad. Otherwise, the copies of all floating-point tensors require
            grad.
        anyway: Whether to count saved memory that existed before the call (inputs, parameters).

    Returns:
        The number of bytes. The measurement takes one forward pass.

    Raises:
        TypeError: ``fn`` cannot be called.
        ValueError: The result has no graph.

    Example:
        >>> import torch
        >>> from autograd_doctor.memory import kept_bytes
        >>> kept_bytes(torch.exp, torch.randn(1000))  # exp saves its output
        4000
    """
    return sum(kept.bytes for kept in kept_tensors(fn, *inputs) if anyway or not kept.anyway)


def kept_tensors(fn: Callable[..., Any], *inputs: Any) -> tuple[Kept, ...]:
    """Return the storages that ``kept_bytes(fn, *inputs, anyway=True)`` counts, largest first.

    Args:
        fn: As for :func:`kept_bytes`.
        inputs: As for :func:`kept_bytes`.

    Returns:
        The storages, each with its size and with the shape and dtype of a tensor in it.

    Raises:
        TypeError: ``fn`` cannot be called.
        ValueError: The result has no graph.

    Example:
        >>> import torch
        >>> from autograd_doctor.memory import kept_tensors
        >>> [(kept.shape, kept.anyway) for kept in kept_tensors(torch.exp, torch.randn(2, 3))]
        [((2, 3), False)]
    """
    alive, saved = LiveStorages(), dict[int, Tensor]()

    def pack(tensor: Tensor) -> Tensor:
        saved.update((key, tensor.detach()) for key, _, _ in iter_storages(tensor))
        alive.measure_again(tensor)
        return tensor

    leaves = fresh_leaves(inputs)
    with preserve_random_state(), saved_tensors_hooks(pack, lambda tensor: tensor), alive:
        anchor = _Anchor.apply(*call_with_graph(fn, leaves))  # type: ignore[no-untyped-call]
    kept = [*_made_before(alive, saved), *_still_alive(alive, saved)]
    del anchor
    return tuple(sorted(kept, key=lambda item: -item.bytes))


def _made_before(alive: LiveStorages, saved: dict[int, Tensor]) -> list[Kept]:
    older = {key: tensor for key, tensor in saved.items() if key not in alive.made}
    sizes = {
        key: _nbytes(storage) for it in older.values() for key, storage, _ in iter_storages(it)
    }
    return [Kept(sizes[key], tuple(it.shape), it.dtype, True) for key, it in older.items()]


def _still_alive(alive: LiveStorages, saved: dict[int, Tensor]) -> list[Kept]:
    looks = {key: (tuple(tensor.shape), tensor.dtype) for key, tensor in saved.items()}
    saved.clear()  # from here on, only the graph keeps saved tensors alive
    return [
        Kept(made.bytes, *looks.get(key, (made.shape, made.dtype)), False)
        for key, made in alive.made.items()
        if made.bytes
    ]


class _Anchor(torch.autograd.Function):
    """A Function that keeps a graph alive through its last node, but not the output tensors.

    A Python reference to the ``grad_fn`` of a custom Function is not enough, because it does not
    keep the nodes behind it alive.
    """

    @staticmethod
    def forward(ctx: Any, *outputs: Tensor) -> Tensor:
        return outputs[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        raise RuntimeError("an anchor only holds")


# --------------------------------------------------------------------------------------------------
# The peak memory of a call and its backward pass, in bytes.
# --------------------------------------------------------------------------------------------------


def peak_bytes(fn: Callable[..., Any], *inputs: Any, backward: bool = True) -> int:
    """Return the peak memory of ``fn(*inputs)`` and its backward pass, in bytes.

    All memory that the two passes create counts: intermediate results, outputs, saved tensors, the
    incoming gradients (ones) and the gradients in ``.grad``. Inputs and parameters existed before
    the call, so they do not count.

    On the CPU, each storage counts from the operation that creates it until its last tensor is
    gone. Temporary memory inside a kernel and process-wide caches are not visible. On CUDA, the
    allocator reports the requested bytes before rounding, which include the workspaces of kernels.
    On CUDA, the call also runs once before the measurement, so that memory allocated by libraries
    on first use does not count.

    Args:
        fn: As for :func:`kept_bytes`.
        inputs: As for :func:`kept_bytes`.
        backward: ``False`` runs only the forward pass, which still records a graph.

    Returns:
        The number of bytes. The measurement takes one forward and one backward pass (two each on
        CUDA).

    Raises:
        TypeError: ``fn`` cannot be called.
        ValueError: The result has no graph.

    Example:
        >>> import torch
        >>> from autograd_doctor.memory import peak_bytes
        >>> peak_bytes(torch.exp, torch.randn(1000), backward=False)
        4000
    """
    devices = {it.device for it in inputs if isinstance(it, Tensor) and it.is_cuda}
    if len(devices) == 1:
        (device,) = devices
        _passes(fn, fresh_leaves(inputs), backward)
        leaves = fresh_leaves(inputs)
        return _requested(device, lambda: _passes(fn, leaves, backward))
    alive = LiveStorages()
    _passes(fn, fresh_leaves(inputs), backward, alive)
    return alive.high


def _passes(fn: Any, leaves: Sequence[Any], backward: bool, watch: Any = None) -> None:
    """Run forward and backward.

    The caller copies the inputs so that the measurement does not count the copies.
    """
    with preserve_random_state():
        with watch or torch.enable_grad():
            outputs = call_with_graph(fn, leaves)
        if backward:
            with borrow_gradients(outputs), watch or torch.enable_grad():
                torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


def _requested(device: torch.device, run: Callable[[], None]) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_stats(device)["requested_bytes.all.current"]
    run()
    torch.cuda.synchronize(device)
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.peak"] - before)


# --------------------------------------------------------------------------------------------------
# The largest tensor that a call creates.
# --------------------------------------------------------------------------------------------------


class Largest(DispatchMode):
    """A mode that counts operations and records the largest tensor that they return.

    ``elements`` is the largest number of elements of any tensor. ``bytes`` is the size of the
    largest storage, so a view counts as much as its whole storage. ``shape`` and ``operation``
    describe this tensor and the operation that created it.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = self.elements = self.bytes = 0
        self.shape: tuple[int, ...] = ()
        self.operation = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation and measure its results."""
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for tensor in iter_tensors(result):
            self.elements = max(self.elements, _numel(tensor))
            if (size := _nbytes(storage_of(tensor))) > self.bytes:
                self.bytes, self.shape = size, tuple(tensor.shape)
                self.operation = operation_name(func)
        return result


# --------------------------------------------------------------------------------------------------
# The size of a model's parameters and buffers in bytes, including quantized ones.
# --------------------------------------------------------------------------------------------------


def stored_bytes(module: nn.Module) -> int:
    """Return the size in bytes of all tensors in ``module.state_dict()``. Each storage counts once.

    A tensor subclass that wraps other tensors, like torchao's quantized weights, counts as the
    tensors that it wraps. The function counts the actual memory. If a four-bit format stores each
    value in one byte, each value counts as one byte.

    Args:
        module: A module with parameters and buffers of any kind.

    Returns:
        The number of bytes.

    Example:
        >>> import torch
        >>> from autograd_doctor.memory import stored_bytes
        >>> stored_bytes(torch.nn.Linear(3, 2))
        32
    """
    parts = [part for tensor in module.state_dict().values() for part in _unwrapped(tensor)]
    return sum({key: storage.nbytes() for key, storage, _ in iter_storages(parts)}.values())


def _unwrapped(tensor: object) -> Iterator[Tensor]:
    """Yield the plain tensors inside a tensor subclass."""
    if not isinstance(tensor, Tensor):  # a module's extra state may be any object
        return
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten()[0]:
        yield from _unwrapped(getattr(tensor, name))
