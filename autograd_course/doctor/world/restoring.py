"""Note how a thing is, so that it can be put back: bindings, contents, the states of generators.

Each function returns a callable that puts its thing back, and does nothing where nothing changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, MutableMapping
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import nn

from autograd_course.doctor.world.reach import cells, global_names

PutBack = Callable[[], None]

_ABSENT = object()


def noted(thing: Any) -> Iterator[PutBack]:
    """Yield what puts back a thing that the user's code can change; nothing for other things."""
    if isinstance(thing, list):
        yield _list(thing)
    elif isinstance(thing, dict):
        yield entries(thing)
    elif isinstance(thing, FunctionType):
        yield _bindings(thing)
        yield from (_cell(cell) for _, cell in cells(thing))
    elif isinstance(thing, type):
        yield _class(thing)
    elif isinstance(thing, nn.Module):
        registries = ("_parameters", "_buffers", "_modules")
        yield from (entries(vars(thing)[name]) for name in registries if name in vars(thing))
        yield entries(vars(thing))
    elif isinstance(getattr(thing, "__dict__", None), dict):
        yield entries(vars(thing))


def generator_state(thing: Any) -> PutBack | None:
    """Return what puts back a generator of random numbers; ``None`` for other things."""
    if isinstance(thing, torch.Generator):
        state = thing.get_state()
        return lambda: _ignored(thing.set_state(state))
    if isinstance(thing, random.Random):
        drawn = thing.getstate()
        return lambda: thing.setstate(drawn)
    if isinstance(thing, np.random.RandomState):
        legacy = thing.get_state()
        return lambda: thing.set_state(legacy)
    if isinstance(thing, np.random.Generator):
        bits: Any = thing.bit_generator
        before = bits.state
        return lambda: setattr(bits, "state", before)
    return None


def _ignored(_: Any) -> None:
    """Drop a result."""


def _list(things: list[Any]) -> PutBack:
    before = list(things)

    def put_back() -> None:
        if list(map(id, things)) != list(map(id, before)):
            things[:] = before

    return put_back


def entries(mapping: MutableMapping[Any, Any]) -> PutBack:
    """Return what puts the entries of a dictionary back."""
    before = dict(mapping)

    def put_back() -> None:
        if not _same_entries(before, mapping):
            mapping.clear()
            mapping.update(before)

    return put_back


def _same_entries(one: MutableMapping[Any, Any], other: MutableMapping[Any, Any]) -> bool:
    return len(one) == len(other) and all(k in other and other[k] is v for k, v in one.items())


def _class(owner: type) -> PutBack:
    before = dict(vars(owner))

    def put_back() -> None:
        for name in set(vars(owner)) - set(before):
            delattr(owner, name)
        for name, value in before.items():
            if vars(owner).get(name, _ABSENT) is not value:
                setattr(owner, name, value)

    return put_back


def _bindings(function: FunctionType) -> PutBack:
    """Note what the global names in a function's code are bound to: it may bind them anew."""
    namespace = function.__globals__
    before = {name: namespace.get(name, _ABSENT) for name in global_names(function.__code__)}

    def put_back() -> None:
        for name, value in before.items():
            if namespace.get(name, _ABSENT) is value:
                continue
            if value is _ABSENT:
                del namespace[name]
            else:
                namespace[name] = value

    return put_back


def _cell(cell: Any) -> PutBack:
    before = cell.cell_contents

    def put_back() -> None:
        cell.cell_contents = before

    return put_back
