"""One call that is measured, and the tensors of its result that depend on its inputs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_doctor.memory.storages import tensors


def called(fn: Any, inputs: Sequence[Any]) -> list[Tensor]:
    """Return the tensors with a graph in ``fn(*inputs)``; a Function class is called by ``.apply``.

    Raises ``TypeError`` if ``fn`` cannot be called and ``ValueError`` if its result has no graph.
    """
    if isinstance(fn, type) and issubclass(fn, torch.autograd.Function):
        fn = fn.apply
    if not callable(fn):
        raise TypeError(
            f"what is measured is a call, not {type(fn).__name__}: give the function and its "
            "inputs, as in kept_bytes(block, x) rather than kept_bytes(block(x))"
        )
    outputs = [tensor for tensor in tensors(fn(*inputs)) if tensor.requires_grad]
    if not outputs:
        raise ValueError(
            "the call returned no tensor that requires a gradient: nothing is kept for a backward "
            "pass; look for detach(), no_grad() or .item() on the way"
        )
    return list({id(output): output for output in outputs}.values())
