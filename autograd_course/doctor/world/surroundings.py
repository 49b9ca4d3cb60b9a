"""What a subject reaches besides its arguments, lent to the doctor while it examines.

A captured weight, a module's buffers, a global table: while they are lent they lie in float64, in
memory of their own, and every call starts from the same values. Afterwards all is as it was.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from autograd_course.doctor.running.calls import is_float
from autograd_course.doctor.world.held import DOUBLE, Held, can_be_lent
from autograd_course.doctor.world.reach import Named, reached
from autograd_course.doctor.world.restoring import PutBack, entries, generator_state, noted

_NO_ARGUMENTS: Mapping[int, Any] = {}
_CARRIERS: tuple[Any, ...] = (
    FunctionType, MethodType, BuiltinMethodType, functools.partial, list, tuple,
)  # fmt: skip


class Surroundings:
    """The tensors, generators, modules, classes and containers that some callables reach."""

    def __init__(self, *roots: Named) -> None:
        self.things = tuple(reached(*roots))
        self._modules = [(name, it) for name, it in self.things if isinstance(it, nn.Module)]
        self.held = tuple(_held(self.things))
        self.precise = True  # in float64 where the arguments are
        self._draws: list[PutBack] = []
        self._registered: list[PutBack] = []  # which tensors are a module's buffers

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers of the modules that are reached, as they are now."""
        return {
            f"{name}.{key}": buffer
            for name, module in self._modules
            for key, buffer in module._buffers.items()
            if buffer is not None
        }

    def covers(self, thing: Any) -> bool:
        """Whether all that a thing leads to is reached, but for functions and lists made anew."""
        known = {id(it) for _, it in self.things}
        return all(id(it) in known or isinstance(it, _CARRIERS) for _, it in reached(("", thing)))

    def passed(self, args: Sequence[Any]) -> dict[int, Held]:
        """Return, by position, the arguments that are reached besides and ask for a gradient.

        So a checkpoint is called, with a module and its parameters: one tensor, known twice.
        """
        known = {
            (held.tensor.data_ptr(), held.tensor.shape): held
            for held in self.held
            if held.asks and held.tensor.numel()
        }
        dense = [(i, a) for i, a in enumerate(args) if getattr(a, "layout", None) is torch.strided]
        places = {i: (a.data_ptr(), a.shape) for i, a in dense}
        return {i: known[place] for i, place in places.items() if place in known}

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend everything for the duration of a block."""
        keep = [put_back for _, thing in self.things for put_back in noted(thing)]
        self._draws = [state for _, thing in self.things if (state := generator_state(thing))]
        self._registered = [entries(module._buffers) for _, module in self._modules]
        versions = _unsafe_preserve_version_counter(tuple(held.tensor for held in self.held))
        try:
            with versions:  # the caller may have saved these tensors for a backward to come
                self.begin()
                yield
        finally:
            for put_back in (*keep, *self._draws, *(held.put_back for held in self.held)):
                put_back()
            self._draws, self._registered = [], []

    def begin(self, args: Sequence[Any] = (), passed: Mapping[int, Held] = _NO_ARGUMENTS) -> None:
        """Put everything where each call starts from, in the precision of the call's arguments.

        ``passed`` are the tensors that have an argument's value, by its position.
        """
        for put_back in self._registered:
            put_back()
        precision = _precision(args) if self.precise else None
        for held in self.held:
            held.begin(precision)
        for position, held in passed.items():
            if not args[position].is_meta:
                held.pass_in(args[position])
        self.redraw()

    def redraw(self) -> None:
        """Let the generators that are reached draw the same numbers again."""
        for put_back in self._draws:
            put_back()


def _held(things: Sequence[Named]) -> Iterator[Held]:
    """Yield the tensors that can be given other memory for a while."""
    modules = [thing for _, thing in things if isinstance(thing, nn.Module)]
    parameters = {id(t) for module in modules for t in module._parameters.values()}
    buffers = {id(t) for module in modules for t in module._buffers.values()}
    tensors = [(name, thing) for name, thing in things if can_be_lent(thing)]
    uses = Counter(tensor.untyped_storage().data_ptr() for _, tensor in tensors)
    for name, tensor in tensors:
        # Two tensors in one memory would be two afterwards: they stay where they are.
        if uses[tensor.untyped_storage().data_ptr()] == 1 or not tensor.numel():
            known = id(tensor)
            yield Held(name, tensor, parameter=known in parameters, buffer=known in buffers)


def _precision(args: Sequence[Any]) -> torch.dtype:
    """Return the one floating dtype of a call's arguments; float64 where there are several."""
    found = {value.dtype.to_real() for value in args if is_float(value)}
    return found.pop() if len(found) == 1 else DOUBLE
