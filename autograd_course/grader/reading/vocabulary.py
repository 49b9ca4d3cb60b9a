"""The attributes that ordinary objects have: tensors, modules of ``torch.nn``, lists and strings.

An answer may use these attributes on any object. The instructor gets a remark about any other
attribute, unless the answer defines it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from autograd_course.grader.reading import tables

_PLAIN: tuple[Any, ...] = (
    str, bytes, int, float, complex, list, tuple, dict, set, frozenset, range, slice, object,
    BaseException, torch.Tensor, torch.Size, torch.dtype, torch.device, torch.Generator,
    torch.nn.Module, torch.nn.Parameter, torch.finfo, torch.iinfo, torch.autograd.Function,
    FunctionCtx, torch.optim.Optimizer, torch.utils.data.DataLoader,
)  # fmt: skip
# An answer may derive its classes from these classes.
ORDINARY_BASES = (torch.autograd.Function, torch.nn.Module, torch.utils.data.Dataset, Exception)
# Attributes that these objects do not always have.
_MORE = {
    "grad_fn", "saved_tensors", "needs_input_grad", "materialize_grads", "weight", "bias", "data",
    "training", "values", "indices", "solution", "Q", "R", "U", "S", "Vh", "L", "LU", "pivots",
    "eigenvalues", "eigenvectors", "sign", "logabsdet", "_fields", "_asdict", "_make", "_replace",
    "batch_size", "randomness", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_vmap", "__name__", "__doc__", "__version__", "setter", "getter",
    "deleter", "cache_clear", "cache_info", "most_common", "appendleft", "popleft", "rotate",
    "code", "value",
}  # fmt: skip
_OPERATORS = (
    "add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub",
    "truediv", "xor",
)  # fmt: skip
_SPECIAL = {
    *(f"__{kind}{name}__" for name in _OPERATORS for kind in ("", "i", "r")),
    *(f"__{name}__" for name in (
        "abs", "bool", "call", "complex", "contains", "delitem", "divmod", "doc", "eq", "exit",
        "float", "format", "ge", "getitem", "gt", "hash", "index", "init", "init_subclass", "int",
        "invert", "iter",
        "le", "len", "lt", "module", "name", "ne", "neg", "next", "pos", "post_init", "qualname",
        "repr", "reversed", "round", "setitem", "str", "torch_function", "version")),
}  # fmt: skip


def is_ordinary(name: str, modules: Iterable[str]) -> bool:
    """Return whether ordinary objects, or objects of one of these modules, have the attribute."""
    return name in _ordinary() or any(name in _of_module(each) for each in modules)


@cache
def _ordinary() -> Collection[str]:
    return _names(_PLAIN) | _MORE


def _of_module(path: str) -> Collection[str]:
    """Return the attributes of the public classes in a module that answers may use.

    Importing a module takes long, so a module counts only if Python has imported it.
    """
    found = sys.modules.get(path) if path in tables.OPEN_MODULES and path != "torch" else None
    return frozenset() if found is None else _of_classes(found)


@cache
def _of_classes(found: ModuleType) -> Collection[str]:
    public = [value for name, value in vars(found).items() if name[:1] != "_"]
    return _names(value for value in public if isinstance(value, type))


def _names(owners: Iterable[Any]) -> set[str]:
    found = set(dir(torch.Size)).union(*map(dir, owners))
    public = {name for name in found if name[:1] != "_"}
    return public | _SPECIAL | {"_version"}
