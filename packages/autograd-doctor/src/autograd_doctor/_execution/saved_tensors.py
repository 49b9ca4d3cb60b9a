"""Replace and describe the values of saved tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from autograd_doctor._execution.operations import custom_nodes, memory
from autograd_doctor._execution.passes import copies, gradients
from autograd_doctor._execution.session import Run, Session
from autograd_doctor.evidence import Evidence

# --------------------------------------------------------------------------------------------------
# Keep a call's saved tensors packed until backward, to replace their values.
# --------------------------------------------------------------------------------------------------

Exchange = Callable[[Tensor], Tensor]
Derivatives = tuple[Tensor | None, ...]

_LARGE = 1e6  # above the usual thresholds, which the example may never reach


class SavedTensorSwapper:
    """A recorder for the tensors saved inside ``hooks``.

    It numbers the tensors and records which of them are unpacked.
    """

    def __init__(self) -> None:
        self.saved: list[Tensor] = []
        self.unpacked: list[int] = []
        self._instead: dict[int, Tensor] = {}

    def hooks(self) -> Any:
        """Return a context manager that passes all tensors saved for backward to this object."""
        return saved_tensors_hooks(self._pack, self._unpack)

    def numbers_of(self, node: Any) -> list[int]:
        """Return the numbers of a node's saved tensors, in the order in which they were saved."""
        before = len(self.unpacked)
        _ = node.saved_tensors
        numbers = self.unpacked[before:]
        del self.unpacked[before:]
        return numbers

    def exchange(self, numbers: Iterable[int], exchange: Exchange) -> None:
        """From now on, replace the values of some tensors when they are unpacked."""
        self._instead |= {number: exchange(self.saved[number].detach()) for number in numbers}

    def _pack(self, tensor: Tensor) -> int:
        self.saved.append(tensor)
        return len(self.saved) - 1

    def _unpack(self, number: int) -> Tensor:
        self.unpacked.append(number)
        return self._instead.get(number, self.saved[number])


@dataclass(frozen=True)
class Setting:
    """The settings of a call: its inputs, which ones require grad, and whether to differentiate
    twice.
    """

    inputs: Sequence[Any]
    wanted: Sequence[int]
    twice: bool = False


@dataclass(frozen=True)
class Call:
    """The result of a forward pass.

    ``numbers`` identifies the node's saved tensors in the swapper.
    """

    run: Run
    node: Any
    swapper: SavedTensorSwapper
    numbers: list[int]

    @property
    def saved(self) -> list[Tensor]:
        """The tensors that the node saved."""
        return [self.swapper.saved[number] for number in self.numbers]

    def exchange(self, places: Iterable[int], exchange: Exchange) -> None:
        """Replace the values of the saved tensors at some positions."""
        self.swapper.exchange([self.numbers[place] for place in places], exchange)

    @property
    def unpacked(self) -> set[int]:
        """The positions of the saved tensors that ``backward`` has unpacked."""
        return {k for k, number in enumerate(self.numbers) if number in self.swapper.unpacked}


def called(session: Session, setting: Setting) -> Call:
    """Run forward while a swapper stores the saved tensors."""
    swapper = SavedTensorSwapper()
    with swapper.hooks():
        run = session.run(inputs=setting.inputs, wanted=setting.wanted)
    node = next(custom_nodes(run.tensors, depth=1))
    return Call(run, node, swapper, swapper.numbers_of(node))


def derived_once(run: Run, grad_outputs: Sequence[Tensor | None]) -> Derivatives:
    """Return the first-order gradients."""
    return gradients(run, copies(grad_outputs))


def derived_twice(run: Run, grad_outputs: Sequence[Tensor | None]) -> Derivatives:
    """Return the gradients.

    Also return the derivatives of their sum with respect to the inputs and ``grad_output``.
    """
    followed = [g if g is None else g.clone().requires_grad_() for g in grad_outputs]
    once = gradients(run, followed, create_graph=True)
    again = [grad for grad in once if grad is not None and grad.requires_grad]
    if not again:
        return once
    by = [*run.leaves, *(g for g in followed if g is not None)]
    ones = [torch.ones_like(grad) for grad in again]
    return (*once, *torch.autograd.grad(again, by, ones, allow_unused=True))


def exchanges_for(dtype: torch.dtype) -> tuple[Exchange, ...]:
    """Return functions that replace a tensor's values, starting with the safest one.

    The first function only reorders values, so indices that are stored as floats stay in range.
    There is no function for integers, because compiled code does not check indices and could access
    memory out of bounds.
    """
    if dtype == torch.bool:
        return (torch.logical_not,)
    if not dtype.is_floating_point and not dtype.is_complex:
        return ()
    return (_reversed, torch.zeros_like, _filled(torch.nan), _filled(_LARGE), _filled(-_LARGE))


def _reversed(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor).copy_(tensor.flatten().flip(0).view(tensor.shape))


def _filled(value: float) -> Exchange:
    return lambda tensor: torch.full_like(tensor, value)


# --------------------------------------------------------------------------------------------------
# Describe the tensors that a call saved for backward, and group those that share memory.
# --------------------------------------------------------------------------------------------------

Group = tuple[int, ...]  # positions of saved tensors that share memory


def groups_in(call: Call) -> list[Group]:
    """Group the saved tensors by the memory that they keep alive.

    Omit tensors with their own graph and tensors whose memory an attribute of ``ctx`` also keeps
    alive. For these tensors, unpacking does not show whether ``backward`` uses them.
    """
    by_memory: dict[torch.UntypedStorage, list[int]] = {}
    for place, tensor in enumerate(call.saved):
        for storage in memory([tensor]):
            by_memory.setdefault(storage, []).append(place)
    attributes = vars(call.node).values()
    elsewhere = memory(attributes) | memory(_with_own_graph(call))
    arrays = [value for value in attributes if isinstance(value, np.ndarray)]
    return [
        tuple(places)
        for storage, places in by_memory.items()
        if storage.nbytes() and storage not in elsewhere
        if not any(_lies_in(array, storage) for array in arrays)
    ]


def _with_own_graph(call: Call) -> list[Tensor]:
    given = [arg for arg in call.run.args if isinstance(arg, Tensor)]
    known = {call.node, *(arg.grad_fn for arg in given if arg.grad_fn is not None)}
    return [tensor for tensor in call.saved if tensor.requires_grad and tensor.grad_fn not in known]


def _lies_in(array: np.ndarray[Any, Any], storage: torch.UntypedStorage) -> bool:
    begin = storage.data_ptr()
    return begin <= int(array.ctypes.data) < begin + storage.nbytes()


def name_of(evidence: Evidence, call: Call, tensor: Tensor) -> str:
    """Describe a saved tensor as an input, an output, or an intermediate result."""
    for position, arg in enumerate(call.run.args):
        if isinstance(arg, Tensor) and memory([arg]) == memory([tensor]):
            return f"`{evidence.name(position)}`"
    for k, output in enumerate(call.run.tensors):
        if memory([output]) == memory([tensor]):
            return "the output" if len(call.run.tensors) == 1 else f"output {k}"
    return f"an intermediate result of shape {tuple(tensor.shape)}"
