"""Observe what happens inside a pass: graph nodes, operations, and the devices of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from autograd_doctor._numerics.tensors import is_wrapped
from autograd_doctor.memory import (
    STRIDED,
    DispatchMode,
    iter_tensors,
    layout_of,
    operation_name,
    storage_of,
)

# --------------------------------------------------------------------------------------------------
# The nodes of the graph that forward created.
# --------------------------------------------------------------------------------------------------


def custom_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of custom Functions, down to a given depth below the outputs."""
    return (node for node in graph_nodes(outputs, depth) if hasattr(node, "_forward_cls"))


def graph_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the graph nodes, down to a given depth below the outputs."""
    seen: set[Any] = set()
    level: list[Any] = [out.grad_fn for out in outputs]
    while level and depth:
        fresh_nodes = {node for node in level if node is not None} - seen
        seen |= fresh_nodes
        yield from fresh_nodes
        level = [parent for node in fresh_nodes for parent, _ in node.next_functions]
        depth -= 1


# --------------------------------------------------------------------------------------------------
# The operations that a block of code runs, and the operations that contribute to a result.
#
# The doctor counts operations instead of timing them, because the count is the same on every
# machine.
# --------------------------------------------------------------------------------------------------

# compared by identity; kept alive so that no id is reused
Memory = frozenset[torch.UntypedStorage]


@dataclass(frozen=True)
class Operation:
    """An operation: its name, the memory that it reads, and the memory that it writes to."""

    name: str
    reads: Memory
    writes: Memory


class OperationRecorder(DispatchMode):
    """A context manager that records every operation on tensors.

    Some operations do not count: views (``transpose``, ``detach``), and operations that create a
    tensor whose values depend on no other tensor (``zeros_like``, ``empty``). A fused kernel counts
    as one operation.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        # memory read by .item() and ==; the recorder cannot see how Python uses the result
        self._read_by_python: Memory = frozenset()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and record it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        reads, made = memory([*args, *kwargs.values()]), memory([result])
        writes = made - reads | memory(changed_by(func, args, kwargs))
        if not made and not writes:
            self._read_by_python |= reads
        elif writes and reads and not _only_makes(func):
            self.operations.append(Operation(operation_name(func), reads, writes))
        return result

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operations, in order."""
        return tuple(operation.name for operation in self.operations)

    def leading_to(self, result: Any) -> set[int]:
        """Return the positions of the operations that contribute to a result."""
        wanted, found = set(memory([result]) | self._read_by_python), set()
        for position, operation in reversed(list(enumerate(self.operations))):
            if operation.writes & wanted:
                found.add(position)
                wanted |= operation.reads
        return found


class OneDevice(DispatchMode):
    """A context manager that raises an error if an in-place operation mixes devices.

    Between real devices, PyTorch copies the values silently, so the mistake becomes visible only
    later.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, or raise an error if it fills a tensor from another device."""
        kwargs = kwargs or {}
        values = [v for p, v in enumerate(args) if not (p == 1 and _picks_places(func))]
        given = {t.device.type for t in iter_tensors([*values, *kwargs.values()]) if t.dim()}
        for filled in iter_tensors(list(changed_by(func, args, kwargs))):
            if len(given) > 1 and filled.dim():
                others = ", ".join(sorted(given - {filled.device.type}))
                raise RuntimeError(f"one on device {filled.device.type} is filled from {others}")
        return func(*args, **kwargs)


def memory(values: Iterable[Any]) -> Memory:
    """Return the memory of all tensors in ``values``, including those in lists and dictionaries.

    Skip sparse tensors, which have no memory of their own.
    """
    return frozenset(
        storage_of(tensor)
        for tensor in iter_tensors(list(values))
        if not is_lazy(tensor) and layout_of(tensor) is STRIDED and not is_wrapped(tensor)
    )


def changed_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield the arguments that an operation changes in place."""
    schema = getattr(func, "_schema", None)  # an operation that runs others, such as cond, has none
    for position, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield args[position] if position < len(args) else kwargs.get(argument.name)


def _picks_places(func: Any) -> bool:
    """Whether an operation's second argument contains indices, which are allowed on the CPU."""
    return "index_put" in operation_name(func)


def _only_makes(func: Any) -> bool:
    """Whether an operation reads only the shape, dtype and device of a tensor."""
    name = operation_name(func)
    return name.endswith("_like") or name.startswith("new_")


# --------------------------------------------------------------------------------------------------
# Can a subject put a tensor on a different device than its inputs?
#
# The meta device would answer this question, but the first operation on it imports
# ``torch._dynamo``, which takes a second. So we first watch the subject on its own device. Its
# results are on the same device as its inputs under two conditions: the subject names no device
# other than a tensor's device, and it uses only tensors that it creates from its inputs.
# --------------------------------------------------------------------------------------------------

_MOVES = {Tensor.cpu, Tensor.cuda, Tensor.type, Tensor.get_device}
_DEVICE, *_ASKS = (vars(torch._C.TensorBase)[n].__get__ for n in ("device", "is_cpu", "is_cuda"))
# Watched CPU tensors report this device, which PyTorch treats as the CPU. The index distinguishes
# it from a CPU device that the user's code names.
_OF_A_TENSOR = torch.device("cpu", 0)


class Strangers(DispatchMode):
    """A context manager that detects tensors that were not computed from the ``given`` tensors.

    It ignores 0-dim tensors, because they can be on the CPU while all other tensors are on a GPU.
    """

    def __init__(self, given: Iterable[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False
        self._known = set(memory(given))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. If all its inputs are known tensors, its results also become known."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if self.found:
            return result
        read, device = list(iter_tensors([args, kwargs])), kwargs.get("device")
        if _is_of_a_tensor(device) or (read and device is None):
            self.meet(tensor for tensor in read if tensor.dim())
            self.know(result)
        return result

    def know(self, value: Any) -> None:
        """Mark the tensors in a value as known."""
        self._known |= memory([value])

    def meet(self, values: Iterable[Any]) -> None:
        """Record whether the values contain an unknown tensor."""
        for tensor in iter_tensors(list(values)):
            own = memory([tensor])
            self.found |= not own or not own <= self._known


class DevicesNamed(TorchFunctionMode):
    """A context manager that detects calls that name a device other than a tensor's device.

    ``to`` and ``cpu`` run no operation if the tensor is already on the device, so recording
    operations would miss these calls.
    """

    def __init__(self, strangers: Strangers) -> None:
        super().__init__()
        self.found = False
        self._strangers = strangers

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call a PyTorch function, and record whether it names a device."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func == _DEVICE:
            return _OF_A_TENSOR if result.type == "cpu" else result
        device = kwargs.get("device")
        moved = func is Tensor.to and not all(map(_stays, args[1:]))
        named = device is not None and not _is_of_a_tensor(device)
        self.found |= moved or named or func in _MOVES or func in _ASKS
        if _is_of_a_tensor(device):
            self._strangers.know(result)
        return result


def _is_of_a_tensor(device: Any) -> bool:
    return isinstance(device, torch.device) and (device.type, device.index) == ("cpu", 0)


def _stays(argument: Any) -> bool:
    """Whether an argument of ``to`` names no device other than the device of a tensor."""
    return isinstance(argument, torch.dtype | bool | Tensor) or _is_of_a_tensor(argument)
