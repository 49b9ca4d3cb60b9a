"""The storages behind tensors of any layout, and what a tree of values holds."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def storages(tensor: Tensor) -> list[torch.UntypedStorage]:
    """Return the storages of a tensor: one, or those of its parts where it is sparse."""
    if tensor.layout is torch.strided:
        parts = [tensor]
    elif tensor.layout is torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    else:
        parts = [tensor]
    try:
        return [part.untyped_storage() for part in parts]
    except (RuntimeError, NotImplementedError):  # no memory of its own: meta-like, opaque
        return []


def tensors(value: Any, inside: frozenset[int] = frozenset()) -> Iterator[Tensor]:
    """Yield all tensors in a value: lists, tuples, sets and dicts are opened.

    ``inside`` are the ids of those that are open, of which one may hold itself.
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple | set | frozenset | dict) and id(value) not in inside:
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item, inside | {id(value)})


def keyed(value: Any) -> Iterator[tuple[int, torch.UntypedStorage, Tensor]]:
    """Yield key, storage and tensor for all tensors in a value.

    A key names a storage as long as that lives.
    """
    for tensor in tensors(value):
        for storage in storages(tensor):
            yield storage._cdata, storage, tensor


def keys(value: Any) -> set[int]:
    """Return the keys of all storages in a value."""
    return {key for key, _, _ in keyed(value)}
