"""What autograd keeps between forward and backward, in bytes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from autograd_doctor.memory.alive import Alive
from autograd_doctor.memory.calling import called
from autograd_doctor.memory.leaves import fresh_leaves
from autograd_doctor.memory.storages import keyed
from autograd_doctor.memory.surroundings import random_states_kept


@dataclass(frozen=True)
class Kept:
    """A storage that is kept; ``shape`` and ``dtype`` are those of a tensor on it.

    ``anyway``: it was there before the call, as inputs and parameters are.
    """

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    anyway: bool


def kept_bytes(fn: Any, *inputs: Any, anyway: bool = False) -> int:
    """Return how many bytes ``fn(*inputs)`` keeps for its backward pass, each storage once.

    ``fn`` is a Function class, a module or any callable. It is called with copies of ``inputs``,
    which ask for gradients as the originals do, or all of them where none does. Then the results
    are dropped and only the graph is held: what is still alive of the memory that the call has
    made, that the graph keeps alive – saved tensors, what lies on a ``ctx``, what a checkpoint
    needs. An output counts if backward needs it. Memory that was there before (inputs, parameters)
    costs nothing; with ``anyway=True`` it counts as well, if it is saved.

    Bytes are those of whole storages: a saved slice keeps all that it was cut from. Sizes are what
    tensors ask for, before an allocator rounds them up. Memory that no operation makes, such as a
    copy of the random state (some 5 KB), is not seen. The call is real, so that a module's buffers
    are updated; PyTorch's random state is put back.

    Raises ``TypeError`` if ``fn`` cannot be called and ``ValueError`` if its result has no graph.
    """
    return sum(kept.bytes for kept in kept_tensors(fn, *inputs) if anyway or not kept.anyway)


def kept_tensors(fn: Any, *inputs: Any) -> tuple[Kept, ...]:
    """Return what ``kept_bytes(fn, *inputs, anyway=True)`` counts, the largest first."""
    alive, saved = Alive(), dict[int, Tensor]()

    def pack(tensor: Tensor) -> Tensor:
        saved.update((key, tensor.detach()) for key, _, _ in keyed(tensor))
        return tensor

    leaves = fresh_leaves(inputs)
    with random_states_kept(), saved_tensors_hooks(pack, lambda tensor: tensor), alive:
        anchor = _Anchor.apply(*called(fn, leaves))  # type: ignore[no-untyped-call]
    kept = [*_made_before(alive, saved), *_still_alive(alive, saved)]
    del anchor
    return tuple(sorted(kept, key=lambda item: -item.bytes))


def _made_before(alive: Alive, saved: dict[int, Tensor]) -> list[Kept]:
    older = {key: tensor for key, tensor in saved.items() if key not in alive.made}
    sizes = {key: storage.nbytes() for it in older.values() for key, storage, _ in keyed(it)}
    return [Kept(sizes[key], tuple(it.shape), it.dtype, True) for key, it in older.items()]


def _still_alive(alive: Alive, saved: dict[int, Tensor]) -> list[Kept]:
    looks = {key: (tuple(tensor.shape), tensor.dtype) for key, tensor in saved.items()}
    saved.clear()  # from here on, nothing but the graph holds what was saved
    return [
        Kept(made.bytes, *looks.get(key, (made.shape, made.dtype)), False)
        for key, made in alive.made.items()
        if made.bytes
    ]


class _Anchor(torch.autograd.Function):
    """Holds a graph by its end, and no tensor of it.

    A Python reference to ``grad_fn`` would not do: of a custom Function it does not keep the nodes
    behind it.
    """

    @staticmethod
    def forward(ctx: Any, *outputs: Tensor) -> Tensor:
        return outputs[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        raise RuntimeError("an anchor only holds")
