"""What runs inside a pass: graph nodes, operations, and where tensors are placed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from autograd_doctor._numerics.tensors import is_wrapped
from autograd_doctor.memory import DispatchMode, iter_tensors, operation_name

# --------------------------------------------------------------------------------------------------
# The nodes of the graph that forward left behind.
# --------------------------------------------------------------------------------------------------


def custom_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of custom Functions within a depth below the outputs."""
    return (node for node in graph_nodes(outputs, depth) if hasattr(node, "_forward_cls"))


def graph_nodes(outputs: Sequence[Tensor], depth: int = 10_000) -> Iterator[Any]:
    """Yield the nodes of the graph within a depth below the outputs."""
    seen: set[Any] = set()
    level: list[Any] = [out.grad_fn for out in outputs]
    while level and depth:
        fresh_nodes = {node for node in level if node is not None} - seen
        seen |= fresh_nodes
        yield from fresh_nodes
        level = [parent for node in fresh_nodes for parent, _ in node.next_functions]
        depth -= 1


# --------------------------------------------------------------------------------------------------
# Which operations a block of code runs, and which of them lead to a result.
#
# Operations are counted, not timed: a count is the same on every machine.
# --------------------------------------------------------------------------------------------------

Memory = frozenset[torch.UntypedStorage]  # told apart by identity; held, so that none is reused


@dataclass(frozen=True)
class Operation:
    """One operation: its name, the memory that it reads and the memory that it writes."""

    name: str
    reads: Memory
    writes: Memory


class OperationRecorder(DispatchMode):
    """A block in which every operation on tensors is noted.

    Free of charge are views (``transpose``, ``detach``) and new tensors for which no other's values
    are read (``zeros_like``, ``empty``). One fused kernel is one operation.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self._read_by_python: Memory = frozenset()  # .item() and ==: where they lead is not seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and note it."""
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
        """The operations' names, in order."""
        return tuple(operation.name for operation in self.operations)

    def leading_to(self, result: Any) -> set[int]:
        """Return the positions of the operations on whose outcome a result depends."""
        wanted, found = set(memory([result]) | self._read_by_python), set()
        for position, operation in reversed(list(enumerate(self.operations))):
            if operation.writes & wanted:
                found.add(position)
                wanted |= operation.reads
        return found


class OneDevice(DispatchMode):
    """A block in which no tensor is filled from one on another device.

    Between real devices PyTorch copies without a word, and the mistake shows elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, unless it fills a tensor from another device."""
        kwargs = kwargs or {}
        values = [v for p, v in enumerate(args) if not (p == 1 and _picks_places(func))]
        given = {t.device.type for t in iter_tensors([*values, *kwargs.values()]) if t.dim()}
        for filled in iter_tensors(list(changed_by(func, args, kwargs))):
            if len(given) > 1 and filled.dim():
                others = ", ".join(sorted(given - {filled.device.type}))
                raise RuntimeError(f"one on device {filled.device.type} is filled from {others}")
        return func(*args, **kwargs)


def memory(values: Iterable[Any]) -> Memory:
    """Return the memory of all tensors among values and in lists and dictionaries of them.

    A sparse tensor has no memory of its own, but that of its indices and values.
    """
    return frozenset(
        tensor.untyped_storage()
        for tensor in iter_tensors(list(values))
        if not is_lazy(tensor) and tensor.layout is torch.strided and not is_wrapped(tensor)
    )


def changed_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield the arguments that an operation changes in place."""
    schema = getattr(func, "_schema", None)  # an operation that runs others, as cond, has none
    for position, argument in enumerate(schema.arguments if schema else ()):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield args[position] if position < len(args) else kwargs.get(argument.name)


def _picks_places(func: Any) -> bool:
    """Whether an operation's second argument holds indices, which may lie on the CPU anyway."""
    return "index_put" in operation_name(func)


def _only_makes(func: Any) -> bool:
    """Whether an operation takes a tensor for its shape, dtype and device alone."""
    name = operation_name(func)
    return name.endswith("_like") or name.startswith("new_")


# --------------------------------------------------------------------------------------------------
# Can a subject put a tensor anywhere but where its inputs lie?
#
# On the meta device that would show, but the first operation there imports ``torch._dynamo``, for a
# second. So the subject is first watched where it is. If it names no device but that of a tensor,
# and uses no tensors but those made from its inputs, its results lie where these lie.
# --------------------------------------------------------------------------------------------------

_MOVES = {Tensor.cpu, Tensor.cuda, Tensor.type, Tensor.get_device}
_DEVICE, *_ASKS = (vars(torch._C.TensorBase)[n].__get__ for n in ("device", "is_cpu", "is_cuda"))
# What a tensor on the CPU says of its device while it is watched. PyTorch takes both for the same
# device, but only a literal in the user's code has no index.
_OF_A_TENSOR = torch.device("cpu", 0)


class Strangers(DispatchMode):
    """A block in which tensors are noted that are not made from the ``given`` ones.

    A number, which has no dims, can lie on the CPU beside tensors of another device.
    """

    def __init__(self, given: Iterable[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = False
        self._known = set(memory(given))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation; what it makes is no stranger if what it reads is none."""
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
        """Take tensors for such as lie where the inputs lie."""
        self._known |= memory([value])

    def meet(self, values: Iterable[Any]) -> None:
        """Note the strangers among values."""
        for tensor in iter_tensors(list(values)):
            own = memory([tensor])
            self.found |= not own or not own <= self._known


class DevicesNamed(TorchFunctionMode):
    """A block in which calls are noted that name a device other than that of a tensor.

    ``to`` and ``cpu`` do nothing to a tensor that is there already: no operation would tell.
    """

    def __init__(self, strangers: Strangers) -> None:
        super().__init__()
        self.found = False
        self._strangers = strangers

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call a function of PyTorch, and note whether a device plays a part."""
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
    """Whether an argument of ``to`` leaves a tensor on the device of another one."""
    return isinstance(argument, torch.dtype | bool | Tensor) or _is_of_a_tensor(argument)
