"""A call whose saved tensors lie in a vault until backward, and may be exchanged for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from autograd_course.doctor.running.graph import custom_nodes
from autograd_course.doctor.running.passes import copies, gradients
from autograd_course.doctor.running.session import Run, Session

Exchange = Callable[[Tensor], Tensor]
Derivatives = tuple[Tensor | None, ...]

_LARGE = 1e6  # beyond any threshold that an example stays within


class Vault:
    """Numbers the tensors that are saved inside ``hooks``, and notes which are unpacked again."""

    def __init__(self) -> None:
        self.saved: list[Tensor] = []
        self.unpacked: list[int] = []
        self._instead: dict[int, Tensor] = {}

    def hooks(self) -> Any:
        """Return a block inside which all that is saved for backward comes here."""
        return saved_tensors_hooks(self._pack, self._unpack)

    def numbers_of(self, node: Any) -> list[int]:
        """Return the numbers of the tensors that a node has saved, in its order."""
        before = len(self.unpacked)
        _ = node.saved_tensors
        numbers = self.unpacked[before:]
        del self.unpacked[before:]
        return numbers

    def exchange(self, numbers: Iterable[int], exchange: Exchange) -> None:
        """Hand out other values for some of the tensors from now on."""
        self._instead |= {number: exchange(self.saved[number].detach()) for number in numbers}

    def _pack(self, tensor: Tensor) -> int:
        self.saved.append(tensor)
        return len(self.saved) - 1

    def _unpack(self, number: int) -> Tensor:
        self.unpacked.append(number)
        return self._instead.get(number, self.saved[number])


@dataclass(frozen=True)
class Setting:
    """A call: its inputs, which of them ask for a gradient, whether that is derived once more."""

    inputs: Sequence[Any]
    wanted: Sequence[int]
    twice: bool = False


@dataclass(frozen=True)
class Call:
    """One forward pass; ``numbers`` are those of the node's saved tensors in the vault."""

    run: Run
    node: Any
    vault: Vault
    numbers: list[int]

    @property
    def saved(self) -> list[Tensor]:
        """What the node saved."""
        return [self.vault.saved[number] for number in self.numbers]

    def exchange(self, places: Iterable[int], exchange: Exchange) -> None:
        """Exchange the saved tensors at some places for others."""
        self.vault.exchange([self.numbers[place] for place in places], exchange)

    @property
    def unpacked(self) -> set[int]:
        """The places of the saved tensors that backward has unpacked."""
        return {k for k, number in enumerate(self.numbers) if number in self.vault.unpacked}


def called(session: Session, setting: Setting) -> Call:
    """Run forward with its saved tensors in a vault."""
    vault = Vault()
    with vault.hooks():
        run = session.run(inputs=setting.inputs, wanted=setting.wanted)
    node = next(custom_nodes(run.tensors, depth=1))
    return Call(run, node, vault, vault.numbers_of(node))


def derived_once(run: Run, grad_outputs: Sequence[Tensor | None]) -> Derivatives:
    """Return the gradients."""
    return gradients(run, copies(grad_outputs))


def derived_twice(run: Run, grad_outputs: Sequence[Tensor | None]) -> Derivatives:
    """Return the gradients, and the derivatives of their sum by inputs and by grad_output."""
    followed = [g if g is None else g.clone().requires_grad_() for g in grad_outputs]
    once = gradients(run, followed, create_graph=True)
    again = [grad for grad in once if grad is not None and grad.requires_grad]
    if not again:
        return once
    by = [*run.leaves, *(g for g in followed if g is not None)]
    ones = [torch.ones_like(grad) for grad in again]
    return (*once, *torch.autograd.grad(again, by, ones, allow_unused=True))


def exchanges_for(dtype: torch.dtype) -> tuple[Exchange, ...]:
    """Return the ways to give a tensor other values, the gentlest first.

    What is an index in some form is exchanged for another one in range first. Integers are not
    exchanged at all: compiled code trusts them and would leave its memory.
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
