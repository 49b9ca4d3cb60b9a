"""Find, use and restore the state that a Function can reach in addition to its arguments."""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from autograd_doctor._numerics.tensors import is_float, is_wrapped, same_bytes

# --------------------------------------------------------------------------------------------------
# State that a callable can reach besides its arguments: closures, modules, attributes, globals.
#
# This code calls nothing and evaluates no properties. It only reads the contents of namespaces.
# --------------------------------------------------------------------------------------------------

MOST = 2000  # maximum number of objects, because a callable can reach a whole library

Named = tuple[str, Any]  # an object, and its name in the user's code

Generators = torch.Generator | random.Random | np.random.Generator | np.random.RandomState

# Containers may hold the user's objects even if a package defines the container's type.
_HOLDERS: tuple[Any, ...] = (
    Tensor, *get_args(Generators), nn.Module, list, tuple, set, frozenset, deque, dict,
    functools.partial, MethodType, BuiltinMethodType,
)  # fmt: skip
_ATOMS = (bool, int, float, complex, str, bytes, type(None))
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_MODULE_INTERNALS = frozenset(vars(nn.Module()))


def walk_reachable(*roots: Named) -> Iterator[Named]:
    """Yield the roots and every object that they can reach, without duplicates.

    The nearest objects come first.

    The search skips objects that belong to PyTorch, NumPy, the standard library or another
    installed package. It never skips tensors, modules, generators or containers, because they hold
    the user's data.
    """
    home = {_home(thing) for _, thing in roots}
    queue = deque(roots)
    # also keeps the objects alive, because Python can reuse the id of a deleted object
    seen: dict[int, Any] = {}
    while queue and len(seen) < MOST:
        name, thing = queue.popleft()
        if isinstance(thing, _ATOMS) or id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, _HOLDERS) or not _is_foreign(thing, home):
            yield name, thing
            queue.extend(islice(_inside(name, thing, home), max(0, MOST - len(queue))))


def _inside(name: str, thing: Any, home: set[str]) -> Iterator[Named]:
    """Yield the objects inside an object, each with its name in the user's code."""
    if isinstance(thing, Tensor | Generators):
        return
    if isinstance(thing, list | tuple | set | frozenset | deque):
        yield from ((f"{name}[{i}]", item) for i, item in enumerate(thing))
    elif isinstance(thing, dict):
        yield from ((f"{name}[{key!r:.40}]", item) for key, item in thing.items())
    elif isinstance(thing, functools.partial):
        yield from (("", thing.func), (name, thing.args), *thing.keywords.items())
    elif isinstance(thing, MethodType | BuiltinMethodType):
        yield from _inside_method(name, thing)
    elif isinstance(thing, nn.Module):
        yield from _inside_module(name, thing)
    elif isinstance(thing, FunctionType):
        yield from _inside_function(thing, home)
    elif isinstance(thing, type):
        yield from _inside_class(name, thing)
    elif isinstance(getattr(thing, "__dict__", None), dict):
        yield from _attributes(name, vars(thing))
        yield type(thing).__name__, type(thing)


def _inside_method(name: str, method: MethodType | BuiltinMethodType) -> Iterator[Named]:
    """Yield the object that a method is bound to, and the underlying function.

    A method written in C has no underlying Python function. Examples are ``seen.append``, and a
    Function's ``apply`` from PyTorch 2.14 on. A function written in C, such as ``math.sin``, is
    "bound" to its module.
    """
    owner = method.__self__
    if not isinstance(owner, ModuleType):
        yield (owner.__name__ if isinstance(owner, type) else "self"), owner
    if isinstance(method, MethodType):
        yield name, method.__func__


def _inside_module(name: str, module: nn.Module) -> Iterator[Named]:
    for registry in _REGISTRIES:
        yield from _attributes(name, vars(module).get(registry, {}))
    own = {key: value for key, value in vars(module).items() if key not in _MODULE_INTERNALS}
    yield from _attributes(name, own)
    yield type(module).__name__, type(module)


def _inside_function(function: FunctionType, home: set[str]) -> Iterator[Named]:
    """Yield the objects that a function's closure, defaults and code refer to."""
    yield from ((name, cell.cell_contents) for name, cell in cells(function))
    code = function.__code__
    defaults = function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(defaults) :], defaults, strict=False)
    yield from (function.__kwdefaults__ or {}).items()
    yield from _attributes(function.__name__, vars(function))
    names = global_names(code)
    for name in names:
        value = function.__globals__.get(name)
        if not isinstance(value, ModuleType):
            yield name, value
        elif not _is_foreign(value, home):
            yield from _attributes(name, {k: vars(value)[k] for k in names if k in vars(value)})


def _inside_class(name: str, owner: type) -> Iterator[Named]:
    """Yield a class's attributes, its methods as plain functions, and its bases."""
    for key, value in list(vars(owner).items()):
        yield f"{name}.{key}", getattr(value, "__func__", value)
    yield from ((base.__name__, base) for base in owner.__bases__)


def _attributes(name: str, namespace: Mapping[str, Any]) -> Iterator[Named]:
    prefix = f"{name}." if name else ""
    yield from ((f"{prefix}{key}", value) for key, value in list(namespace.items()))


def cells(function: FunctionType) -> Iterator[Named]:
    """Yield the contents of a function's closure cells, with the names of the variables."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents  # noqa: B018  an empty cell raises
        except ValueError:
            continue
        yield name, cell


def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the global names that a code object and its nested code objects look up."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    names = [*code.co_names, *(name for const in inner for name in global_names(const))]
    return tuple(dict.fromkeys(names))


def _is_foreign(thing: Any, home: set[str]) -> bool:
    """Whether code belongs to PyTorch, NumPy, the standard library or an installed package."""
    package = _home(thing)
    if package in sys.stdlib_module_names or package in ("torch", "numpy"):
        return True
    return package not in home and _is_installed(package)


def _home(thing: Any) -> str:
    """Return the top-level package of a function, a class, or an instance's class."""
    if isinstance(thing, ModuleType):
        return thing.__name__.partition(".")[0]
    owner = thing if isinstance(thing, type | FunctionType) else type(thing)
    return str(owner.__module__).partition(".")[0]


@functools.cache
def _is_installed(package: str) -> bool:
    place = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in place or "dist-packages" in place


# --------------------------------------------------------------------------------------------------
# Record an object's state (bindings, contents, generators) so that it can be restored.
#
# Each function returns a callable that restores the object. If nothing has changed, the callable
# does nothing.
# --------------------------------------------------------------------------------------------------

PutBack = Callable[[], None]

_ABSENT = object()


def record_state(thing: Any) -> Iterator[PutBack]:
    """If the user's code can change an object, yield callables that restore its current state."""
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
    """Return a callable that restores a random number generator, or ``None`` for other objects."""
    if isinstance(thing, torch.Generator):
        state = thing.get_state()
        return lambda: _ignored(thing.set_state(state))
    if isinstance(thing, random.Random):
        sampled = thing.getstate()
        return lambda: thing.setstate(sampled)
    if isinstance(thing, np.random.RandomState):
        legacy = thing.get_state()
        return lambda: thing.set_state(legacy)
    if isinstance(thing, np.random.Generator):
        bits: Any = thing.bit_generator
        before = bits.state
        return lambda: setattr(bits, "state", before)
    return None


def _ignored(_: Any) -> None:
    """Accept a value and do nothing with it."""


def _list(things: list[Any]) -> PutBack:
    before = list(things)

    def put_back() -> None:
        if list(map(id, things)) != list(map(id, before)):
            things[:] = before

    return put_back


def entries(mapping: MutableMapping[Any, Any]) -> PutBack:
    """Return a callable that restores the entries of a dictionary."""
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
    """Return a callable that restores the globals that a function uses, because code can rebind
    them.
    """
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


# --------------------------------------------------------------------------------------------------
# One of the user's tensors. It temporarily uses separate memory and later gets its own memory back.
# --------------------------------------------------------------------------------------------------

DOUBLE = torch.float64


class TensorState:
    """A tensor that the Function can reach, its original state, and its role in a module."""

    def __init__(self, name: str, tensor: Tensor, *, parameter: bool, buffer: bool) -> None:
        self.name, self.tensor = name, tensor
        self.parameter, self.buffer = parameter, buffer
        self.data, self.grad, self.asks = tensor.data, tensor.grad, tensor.requires_grad
        self._version = -1  # the version of the tensor after it received its values

    def begin(self, precision: torch.dtype | None) -> None:
        """Reset the tensor to its original values, in separate memory and without a gradient.

        ``precision`` is the precision of the call's arguments. If it is ``None``, the tensor keeps
        its own dtype.
        """
        tensor = self.tensor
        self._be_leaf()
        dtype = self._dtype(precision) if precision else self.data.dtype
        tensor.grad = None
        # Code may change a buffer through .data without increasing its version number.
        changed = tensor.dtype != dtype or tensor._version != self._version
        if changed or (self.buffer and not same_bytes(tensor.data, self.data.to(dtype))):
            tensor.data = self.data.to(dtype, copy=True)
            tensor.requires_grad_(self.asks)
            self._version = tensor._version

    def pass_in(self, value: Tensor) -> None:
        """Use an argument's value in this call. The tensor requires grad if the argument does."""
        self.tensor.data = value.detach()
        self.tensor.requires_grad_(value.requires_grad)
        self._version = -1

    @contextmanager
    def instead(self, value: Tensor) -> Iterator[None]:
        """Make every call inside the block start from the given value."""
        own = self.data
        self.data, self._version = value, -1
        try:
            yield
        finally:
            self.data, self._version = own, -1

    def _be_leaf(self) -> None:
        """Detach the tensor from its graph to make it a leaf.

        This is needed if a Function has returned the tensor.
        """
        if not self.tensor.is_leaf:
            self.tensor.detach_()

    def _dtype(self, precision: torch.dtype) -> torch.dtype:
        """Return the tensor's dtype in a call whose arguments have the given precision.

        In the doctor's own float64 calls, every floating-point tensor is float64.

        In other calls, a module's tensors get the precision of the arguments, as after
        ``module.to(dtype)``. All other tensors keep their dtype.
        """
        own = self.data.dtype
        if not is_float(self.data) or not (self.parameter or self.buffer or precision is DOUBLE):
            return own
        if own.is_complex:
            return torch.complex128 if precision is DOUBLE else torch.complex64
        return precision

    def put_back(self) -> None:
        """Restore the tensor's original memory and its original gradient exactly."""
        self._be_leaf()
        self.tensor.data = self.data
        self.tensor.requires_grad_(self.asks)
        self.tensor.grad = self.grad


def can_be_borrowed(thing: Any) -> bool:
    """Whether an object is a tensor whose memory the doctor can temporarily replace."""
    return (
        type(thing) in (Tensor, nn.Parameter)
        and thing.layout is torch.strided
        and thing.is_leaf
        and not (thing.is_meta or thing.is_quantized or thing.is_inference())
        and not is_wrapped(thing)
    )


# --------------------------------------------------------------------------------------------------
# The objects that a subject can reach besides its arguments. The doctor borrows them.
#
# Examples are a captured weight, a module's buffers and a global table. While they are borrowed,
# tensors are in float64 and use separate memory, and every call starts from the same values.
# Afterwards, the doctor restores everything.
# --------------------------------------------------------------------------------------------------

_NO_ARGUMENTS: Mapping[int, Any] = {}
_CARRIERS: tuple[Any, ...] = (
    FunctionType, MethodType, BuiltinMethodType, functools.partial, list, tuple,
)  # fmt: skip


class CapturedState:
    """All tensors, generators, modules, classes and containers that some callables can reach."""

    def __init__(self, *roots: Named) -> None:
        self.things = tuple(walk_reachable(*roots))
        self._modules = [(name, it) for name, it in self.things if isinstance(it, nn.Module)]
        self.held = tuple(_held(self.things))
        self._kept: list[PutBack] = []
        self._draws: list[PutBack] = []
        self._registered: list[PutBack] = []  # tensors that are buffers of a module

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers of all reachable modules, in their current state."""
        return {
            f"{name}.{key}": buffer
            for name, module in self._modules
            for key, buffer in module._buffers.items()
            if buffer is not None
        }

    def covers(self, thing: Any) -> bool:
        """Whether an object refers only to this state's objects, plain containers and functions."""
        known = {id(it) for _, it in self.things}
        leads_to = (it for _, it in walk_reachable(("", thing)))
        return all(id(it) in known or isinstance(it, _CARRIERS) for it in leads_to)

    def passed(self, args: Sequence[Any]) -> dict[int, TensorState]:
        """Return the captured tensors that require grad and that the call also passes as arguments.

        The keys are the positions of the arguments.

        For example, if a checkpoint receives a module and its parameters, the code can reach each
        parameter in two ways.
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
    def borrow(self) -> Iterator[None]:
        """Replace the memory of all tensors inside the block.

        Restore all state afterwards.
        """
        self._kept = [put_back for _, thing in self.things for put_back in record_state(thing)]
        self._draws = [state for _, thing in self.things if (state := generator_state(thing))]
        self._registered = [entries(module._buffers) for _, module in self._modules]
        versions = _unsafe_preserve_version_counter(tuple(held.tensor for held in self.held))
        try:
            with versions:  # the caller may have saved these tensors for a later backward pass
                self.begin()
                yield
        finally:
            for put_back in (*self._kept, *self._draws, *(held.put_back for held in self.held)):
                put_back()
            self._kept, self._draws, self._registered = [], [], []

    def forget_calls(self) -> None:
        """Restore classes, containers and variables to their state before the block.

        A call may have changed them, for example by adding an entry to a cache.
        """
        for put_back in self._kept:
            put_back()

    def begin(
        self,
        args: Sequence[Any] = (),
        passed: Mapping[int, TensorState] = _NO_ARGUMENTS,
        *,
        in_precision_of_args: bool = True,
    ) -> None:
        """Reset all state to the start of a call, in the precision of the call's arguments.

        ``passed`` maps an argument's position to the tensor that takes that argument's value.
        """
        for put_back in self._registered:
            put_back()
        precision = _precision(args) if in_precision_of_args else None
        for held in self.held:
            held.begin(precision)
        for position, held in passed.items():
            if not args[position].is_meta:
                held.pass_in(args[position])
        self.redraw()

    def redraw(self) -> None:
        """Reset the reachable generators so that they repeat their random numbers."""
        for put_back in self._draws:
            put_back()


def _held(things: Sequence[Named]) -> Iterator[TensorState]:
    """Yield the tensors whose memory the doctor can temporarily replace."""
    modules = [thing for _, thing in things if isinstance(thing, nn.Module)]
    parameters = {id(t) for module in modules for t in module._parameters.values()}
    buffers = {id(t) for module in modules for t in module._buffers.values()}
    tensors = [(name, thing) for name, thing in things if can_be_borrowed(thing)]
    uses = Counter(tensor.untyped_storage().data_ptr() for _, tensor in tensors)
    for name, tensor in tensors:
        # Borrowing would separate two tensors that share memory, so these tensors keep their
        # memory.
        if uses[tensor.untyped_storage().data_ptr()] == 1 or not tensor.numel():
            known = id(tensor)
            yield TensorState(name, tensor, parameter=known in parameters, buffer=known in buffers)


def _precision(args: Sequence[Any]) -> torch.dtype:
    """Return the only floating-point dtype among a call's arguments, or else float64."""
    found = {value.dtype.to_real() for value in args if is_float(value)}
    return found.pop() if len(found) == 1 else DOUBLE
