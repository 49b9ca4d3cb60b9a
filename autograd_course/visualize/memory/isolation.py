"""Find the objects that a call uses in addition to its arguments, and restore them afterward."""

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from autograd_doctor.extension import CapturedState
from autograd_doctor.memory import iter_storages
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from autograd_course.visualize.kit.inputs import captured_names


@dataclass(frozen=True)
class Reach:
    """The modules and tensors that a callable uses. ``tensors`` maps ids to names."""

    modules: tuple[nn.Module, ...]
    tensors: dict[int, tuple[str, Tensor]]

    @classmethod
    def of(cls, fn: Any) -> "Reach":
        """Search a callable's closure, globals and attributes, without calling anything."""
        found = CapturedState(("", fn)).things
        inner = tuple(thing for _, thing in found if isinstance(thing, nn.Module))
        named = {id(it): (name, it) for name, it in found if isinstance(it, Tensor)}
        for module in inner:
            both = (*module.named_parameters(), *module.named_buffers())
            named |= {id(it): (name, it) for name, it in both if id(it) not in named}
        for key, name in captured_names(fn).items():
            if key in named:
                named[key] = (name, named[key][1])
        return cls(inner, named)

    def storages(self) -> dict[int, str]:
        """Return a name for the storage of each tensor, by storage key."""
        return {key: name for name, it in self.tensors.values() for key, _, _ in iter_storages(it)}

    def buffers(self) -> list[Tensor]:
        """Return the buffers of all modules, because a forward can change them."""
        return list({id(it): it for module in self.modules for it in module.buffers()}.values())


class Gradients:
    """The ``.grad`` of leaves, which is removed before a backward pass and restored afterward."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[Tensor, Tensor | None]] = {}

    def borrow(self, leaves: Iterable[Tensor]) -> None:
        """Remove the gradients of some leaves until ``restore`` is called."""
        for leaf in leaves:
            if leaf.is_leaf and id(leaf) not in self._before:
                self._before[id(leaf)] = (leaf, leaf.grad)
                leaf.grad = None

    def restore(self) -> None:
        """Restore the gradient of each leaf."""
        for leaf, gradient in self._before.values():
            leaf.grad = gradient


@contextmanager
def preserve_state(reach: Reach) -> Iterator[Gradients]:
    """Run a ``with`` block in grad mode. Then restore gradients, buffers and random states."""
    gradients = Gradients()
    gradients.borrow(it for _, it in reach.tensors.values())
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    dtype, draws, numpy_draws = torch.get_default_dtype(), random.getstate(), np.random.get_state()
    try:
        with (
            torch.random.fork_rng(devices=list(devices)),
            torch.inference_mode(False),
            torch.enable_grad(),
            _preserve_buffers(reach.buffers()),
        ):
            yield gradients
    finally:
        torch.set_default_dtype(dtype)
        random.setstate(draws)
        np.random.set_state(numpy_draws)
        gradients.restore()


@contextmanager
def _preserve_buffers(buffers: Sequence[Tensor]) -> Iterator[None]:
    values = [buffer.detach().clone() for buffer in buffers]
    with _unsafe_preserve_version_counter(tuple(buffers)):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(buffers, values, strict=True):
                    buffer.copy_(value)
