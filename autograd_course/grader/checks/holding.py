"""Find the tensors, arrays and numbers that an object keeps in memory."""

from __future__ import annotations

import collections
import dataclasses
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from gc import get_referents
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    NoneType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor

A_FEW = 8  # ctx can hold up to this many numbers, such as a shape, a slope or a few indices
MOST = 2000  # inspect at most this many objects
NAME = 16  # a text of up to this many characters can be a name
MOST_NAMES, MOST_OBJECTS = 32, 100  # more of them can spell out data
_referents = get_referents  # because an answer may replace the name while it runs

_NUMBERS = (bool, int, float, complex, str, bytes, bytearray, np.generic, array, Decimal)
_DATES = (date, time, timedelta)
_CONTAINERS = (list, tuple, set, frozenset, deque)
# Types of objects that hold no data
_EMPTY = (
    NoneType, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo,
    torch.iinfo, torch.Stream, GetSetDescriptorType, MemberDescriptorType,
)  # fmt: skip
# A module can contain these objects by their names.
_NAMED = (type, FunctionType, BuiltinFunctionType, np.ufunc)
# The part of a generator's state that a seed fills, and how many draws fill it again
_BLOCK, _IN_A_BLOCK, _BLOCKS = slice(24, 5016), 624, 32
# The garbage collector knows all objects that an object of these modules refers to.
_KNOWN = ("builtins", "_collections", "collections", "functools", "itertools", "operator", "types")
# Attributes that each class has, or each dataclass, named tuple and abstract class
_OF_A_CLASS = {
    "__module__", "__qualname__", "__doc__", "__slots__", "__match_args__", "__annotations__",
    "__firstlineno__", "__static_attributes__", "__dataclass_fields__", "__dataclass_params__",
    "_fields", "_abc_impl",
}  # fmt: skip


class Held:
    """What can be reached from an object, such as the value of an attribute of ctx.

    ``data`` holds the numbers, texts and arrays that are not in tensors. ``numbers`` is the count
    of all their numbers, and ``floats`` is the count of floats among them. ``spelled`` is the count
    of short keys and fields, and ``objects`` is the count of all other objects. ``closed`` is the
    type of an object whose content the search cannot see, or ``""``. The search skips ``known``
    objects. It also skips modules, classes and functions that are found by their names, because
    they are not made for this call.
    """

    def __init__(
        self, value: Any, known: Iterable[Any] = (), names: Mapping[str, Any] = {}
    ) -> None:
        self.tensors: list[Tensor] = []
        self.data: list[Any] = []
        self.numbers = self.floats = self.spelled = 0
        self.closed = ""
        self._names = names
        # The dict keeps the objects alive, because an id is unique only while the object exists.
        self._seen = {id(it): it for it in known}
        before, queue = len(self._seen), [value]
        while queue and not self.closed:
            queue += self._content(queue.pop())
        self.objects = len(self._seen) - before

    def _content(self, thing: Any) -> Iterable[Any]:
        """Count one object, and return the objects in it."""
        kind = type(thing)
        if count := count_numbers(thing):
            self.data.append(thing)
            self.numbers += count
            self.floats += count if issubclass(kind, float | complex | np.inexact) else 0
        if kind in (*_NUMBERS, *_EMPTY) or id(thing) in self._seen:
            return ()
        self._seen[id(thing)] = thing
        if len(self._seen) > MOST:
            self.closed = f"{kind.__name__} with thousands of objects"
        if issubclass(kind, np.dtype):
            return (thing.metadata, thing.fields, thing.subdtype)
        if issubclass(kind, torch.Generator):
            self.closed = "" if _is_seeded(thing) else kind.__name__
            return _attributes(thing)
        if issubclass(kind, weakref.finalize):
            return (thing.peek(),)
        if issubclass(kind, np.void) and thing.dtype.hasobject:
            return (thing.item(),)
        if issubclass(kind, (np.generic, Decimal, *_DATES, *_EMPTY)):
            return (*_attributes(thing), *_members(thing), getattr(thing, "tzinfo", None))
        if issubclass(kind, Tensor):
            self.tensors.append(thing)
            return _attributes(thing)
        if issubclass(kind, np.ndarray):
            return self._array(thing)
        if issubclass(kind, memoryview):
            return (thing.obj,)
        if issubclass(kind, weakref.ref):
            return (thing(), thing.__callback__, *_attributes(thing))
        if issubclass(kind, ModuleType):
            return () if sys.modules.get(thing.__name__) is thing else vars(thing).values()
        if issubclass(kind, _NAMED) and self._is_named(thing):
            return ()
        if issubclass(kind, type):
            self.spelled += len(vars(thing).get("_fields", ()))
            return _of_class(thing)
        if issubclass(kind, FunctionType):
            return _of_function(thing)
        if issubclass(kind, staticmethod | classmethod):
            return (thing.__func__, *_but_texts(_attributes(thing)))
        if issubclass(kind, property):
            return (thing.fget, thing.fset, thing.fdel, *_but_texts([thing.__doc__]))
        if not all(map(_is_open, kind.__mro__)):
            self.closed = kind.__name__
        return self._referents(thing, kind)

    def _array(self, thing: Any) -> Iterable[Any]:
        if thing.dtype.hasobject:
            return (thing.tolist(), *_attributes(thing))
        if thing.base is None or isinstance(thing.base, Tensor):
            self.data.append(thing)
            self.numbers += thing.size
            self.floats += thing.size if thing.dtype.kind in "fc" else 0
        return (thing.base, *_attributes(thing))  # all memory of its base stays alive

    def _referents(self, thing: Any, kind: type) -> Iterable[Any]:
        own = getattr(thing, "__dict__", ())
        inside = [it for it in _referents(thing) if it is not own]
        if issubclass(kind, dict):
            items, keys = list(dict.values(thing)), list(dict.keys(thing))
            factory = [it for it in inside if all(it is not each for each in (*items, *keys))]
            few = len(keys) <= A_FEW
            others = [it for it in keys if not (few and _is_short_name(it))]
            self.spelled += len(keys) - len(others)
            inside = [*items, *others, *factory]
        if issubclass(kind, deque):
            inside.append(thing.maxlen)
        if issubclass(kind, (*_CONTAINERS, dict)) and len(inside) > A_FEW:
            # Which object is at which place in a long list is information, too.
            self.numbers += sum(not count_numbers(it) for it in inside)
        elif kind.__module__ in _KNOWN and not issubclass(kind, (*_CONTAINERS, dict)):
            self.numbers += 1  # such as the position of an iterator
        found = set(map(id, inside))
        more = (*_attributes(thing), *_members(thing))
        return (*inside, *(it for it in more if id(it) not in found))

    def _is_named(self, thing: Any) -> bool:
        """Return whether a module or the answer's cell has a class or function by its name."""
        if isinstance(thing, type) and not thing.__flags__ & _HEAP:
            return True
        place, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
        if isinstance(thing, np.ufunc):
            place, name = place or "scipy.special", thing.__name__
        if not isinstance(name, str):
            return False
        spaces: list[Mapping[str, Any]] = [self._names]
        if isinstance(place, str) and place in sys.modules:
            spaces.append(vars(sys.modules[place]))
        first, _, rest = name.partition(".")
        for space in spaces:
            with suppress(AttributeError, KeyError):
                found = space[first]
                if (attrgetter(rest)(found) if rest else found) is thing:
                    return True
        return False


def _is_seeded(generator: torch.Generator) -> bool:
    """Return whether a seed and a few draws lead to the state of a generator."""
    if generator.device.type != "cpu":
        return True
    wanted = generator.get_state()[_BLOCK]
    other = torch.Generator().manual_seed(generator.initial_seed())
    for _ in range(_BLOCKS):
        if torch.equal(other.get_state()[_BLOCK], wanted):
            return True
        torch.empty(_IN_A_BLOCK).uniform_(generator=other)  # fills the next block
    return False


def count_numbers(value: Any) -> int:
    """Count the numbers in a number, a text, bytes or an array. Other objects count as 0.

    Each byte can be a number. A text counts as one number for 4 bytes, and so does an integer, so a
    word and a seed stay small.
    """
    kind = type(value)
    if issubclass(kind, array):
        return len(value)
    if issubclass(kind, bytes | bytearray):
        return len(value)
    if issubclass(kind, str):
        return -(-len(str.encode(value, "utf-8", "surrogatepass")) // 4)
    if issubclass(kind, int):
        return max(1, -(-int.bit_length(value) // 32))
    if issubclass(kind, np.generic):
        return max(1, -(-int(value.nbytes) // 8))
    if issubclass(kind, Decimal):
        return -(-len(Decimal.__str__(value)) // 16)
    if issubclass(kind, _DATES):
        return 2
    if issubclass(kind, torch.device):
        return int(value.index is not None)
    if issubclass(kind, np.dtype):
        return int(value.itemsize > NAME)
    if issubclass(kind, torch.Generator):
        return 2  # its seed
    return 2 if issubclass(kind, complex) else int(issubclass(kind, float))


_HEAP = 1 << 9  # the flag of classes that Python code can define
_TRAVERSED = 1 << 14  # the flag of classes whose objects show the garbage collector what they hold


def _is_short_name(key: Any) -> bool:
    return type(key) is str and len(key) <= NAME and key.isascii()


def _but_texts(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values that are not texts, such as the name and the docstring of a function."""
    return (it for it in values if not isinstance(it, str))


def _of_class(cls: type) -> Iterator[Any]:
    yield from cls.__bases__
    of_abc = type(vars(Iterable)["_abc_impl"])
    of_dataclass = getattr(dataclasses, "_DataclassParams", of_abc)
    for name, value in vars(cls).items():
        if name not in _OF_A_CLASS:
            yield from () if _describes_field(value) else (value,)
        elif type(value) is dict:
            for each in value.values():
                is_field = type(each) is dataclasses.Field
                yield from _but_texts((each.type, each.metadata) if is_field else (each,))
        elif type(value) is tuple:
            yield from _but_texts(value)
        elif type(value) not in (NoneType, str, of_abc, of_dataclass):
            yield value


def _describes_field(value: Any) -> bool:
    return type(value).__name__ == "_tuplegetter" and type(value).__module__ in _KNOWN


def _of_function(function: FunctionType) -> Iterator[Any]:
    if function.__globals__ is vars(collections):
        # a method of a named tuple, which holds the names of its fields
        yield from _but_texts(_attributes(function))
        return
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the closure's cell is empty
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    with suppress(Exception):  # Python 3.14 computes annotations when code reads them
        yield from _but_texts(function.__annotations__.values())
    yield from _attributes(function)


def _attributes(thing: Any) -> Iterable[Any]:
    own = getattr(thing, "__dict__", None)
    return own.values() if type(own) is dict else ()


def _members(thing: Any) -> Iterator[Any]:
    """Yield the values of ``__slots__``, and of similar attributes of types in C."""
    for owner in type(thing).__mro__:
        for member in vars(owner).values():
            if isinstance(member, MemberDescriptorType):
                with suppress(AttributeError):
                    yield member.__get__(thing)


def _is_open(cls: type) -> bool:
    """Return whether objects of a class hold nothing but what the search finds.

    A type in C can hold more. Its objects take more memory than their attributes need.
    """
    base = cls.__base__
    if base is None or cls is torch.Size:
        return True
    if cls.__module__ in _KNOWN:
        few = (object, range, type(iter(range(0))))  # hold no more than a few numbers
        return bool(cls.__flags__ & _TRAVERSED) or issubclass(cls, _NUMBERS) or cls in few
    fields = sum(isinstance(it, MemberDescriptorType) for it in vars(cls).values())
    fields += cls.__dictoffset__ != base.__dictoffset__
    fields += cls.__weakrefoffset__ != base.__weakrefoffset__
    room = cls.__basicsize__ - base.__basicsize__
    return room <= 8 * fields and cls.__itemsize__ == base.__itemsize__
