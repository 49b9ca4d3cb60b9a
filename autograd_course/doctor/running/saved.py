"""What a call has saved for backward: which tensors share memory, and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.running.operations import memory
from autograd_course.doctor.running.vault import Call

Group = tuple[int, ...]  # places, among the saved tensors, of those that share memory


def groups_in(call: Call) -> list[Group]:
    """Return the saved tensors by the memory that they keep.

    Left out is what backward may use though it is not unpacked, or unpacked for something else: a
    tensor with a graph of its own, and memory that an attribute of ctx keeps as well.
    """
    by_memory: dict[torch.UntypedStorage, list[int]] = {}
    for place, tensor in enumerate(call.saved):
        for storage in memory([tensor]):
            by_memory.setdefault(storage, []).append(place)
    attributes = vars(call.node).values()
    elsewhere = memory(attributes) | memory(_with_own_graph(call))
    arrays = [value for value in attributes if isinstance(value, np.ndarray)]
    return [
        tuple(places)
        for storage, places in by_memory.items()
        if storage.nbytes() and storage not in elsewhere
        if not any(_lies_in(array, storage) for array in arrays)
    ]


def _with_own_graph(call: Call) -> list[Tensor]:
    given = [arg for arg in call.run.args if isinstance(arg, Tensor)]
    known = {call.node, *(arg.grad_fn for arg in given if arg.grad_fn is not None)}
    return [tensor for tensor in call.saved if tensor.requires_grad and tensor.grad_fn not in known]


def _lies_in(array: np.ndarray[Any, Any], storage: torch.UntypedStorage) -> bool:
    begin = storage.data_ptr()
    return begin <= int(array.ctypes.data) < begin + storage.nbytes()


def name_of(evidence: Evidence, call: Call, tensor: Tensor) -> str:
    """Return what a saved tensor is: an input, an output, or something between."""
    for position, arg in enumerate(call.run.args):
        if isinstance(arg, Tensor) and memory([arg]) == memory([tensor]):
            return f"`{evidence.name(position)}`"
    for k, output in enumerate(call.run.tensors):
        if memory([output]) == memory([tensor]):
            return "the output" if len(call.run.tensors) == 1 else f"output {k}"
    return f"an intermediate result of shape {tuple(tensor.shape)}"
