"""What a callable can reach besides its arguments: closures, modules, attributes, globals.

Nothing is called here and no attribute is computed: only what already lies in a namespace is seen.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

MOST = 2000  # things looked at: a callable that reaches a whole library is not searched to its end

Named = tuple[str, Any]  # a thing, and what the user's code calls it

Generators = torch.Generator | random.Random | np.random.Generator | np.random.RandomState

# What holds things of the user's, whoever has made its type.
_HOLDERS: tuple[Any, ...] = (
    Tensor, *get_args(Generators), nn.Module, list, tuple, set, frozenset, deque, dict,
    functools.partial, MethodType, BuiltinMethodType,
)  # fmt: skip
_ATOMS = (bool, int, float, complex, str, bytes, type(None))
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_MODULE_INTERNALS = frozenset(vars(nn.Module()))


def reached(*roots: Named) -> Iterator[Named]:
    """Yield the roots and what can be reached from them, each thing once, the nearest first.

    What belongs to PyTorch, NumPy, the standard library or another installed package is passed
    over, but for tensors, modules, generators and containers, which hold what is the user's.
    """
    home = {_home(thing) for _, thing in roots}
    queue = deque(roots)
    seen: dict[int, Any] = {}  # holds the things too: an id is unique only while its owner lives
    while queue and len(seen) < MOST:
        name, thing = queue.popleft()
        if isinstance(thing, _ATOMS) or id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, _HOLDERS) or not _is_foreign(thing, home):
            yield name, thing
            queue.extend(islice(_inside(name, thing, home), max(0, MOST - len(queue))))


def _inside(name: str, thing: Any, home: set[str]) -> Iterator[Named]:
    """Yield what one thing holds, with the names that lead there."""
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
    """Yield what a method is bound to, and the function that it is.

    One of C has none: ``seen.append``, or a Function's ``apply`` from PyTorch 2.14 on. A function
    of C, ``math.sin``, is "bound" to its module.
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
    """Yield what a function's closure, defaults and code lead to."""
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
    """Yield a class's attributes, methods as the functions that they are, and its bases."""
    for key, value in list(vars(owner).items()):
        yield f"{name}.{key}", getattr(value, "__func__", value)
    yield from ((base.__name__, base) for base in owner.__bases__)


def _attributes(name: str, namespace: Mapping[str, Any]) -> Iterator[Named]:
    prefix = f"{name}." if name else ""
    yield from ((f"{prefix}{key}", value) for key, value in list(namespace.items()))


def cells(function: FunctionType) -> Iterator[Named]:
    """Yield a function's closure cells that hold something, with the names of its variables."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents  # noqa: B018  an empty cell raises
        except ValueError:
            continue
        yield name, cell


def global_names(code: CodeType) -> tuple[str, ...]:
    """Return the names that a code object, and those inside it, look up outside of themselves."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    names = [*code.co_names, *(name for const in inner for name in global_names(const))]
    return tuple(dict.fromkeys(names))


def _is_foreign(thing: Any, home: set[str]) -> bool:
    """Whether code is PyTorch's, NumPy's, the standard library's or another installed package's."""
    package = _home(thing)
    if package in sys.stdlib_module_names or package in ("torch", "numpy"):
        return True
    return package not in home and _is_installed(package)


def _home(thing: Any) -> str:
    """Return the top-level package that a function or class, or an instance's class, is from."""
    if isinstance(thing, ModuleType):
        return thing.__name__.partition(".")[0]
    owner = thing if isinstance(thing, type | FunctionType) else type(thing)
    return str(owner.__module__).partition(".")[0]


@functools.cache
def _is_installed(package: str) -> bool:
    place = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in place or "dist-packages" in place
