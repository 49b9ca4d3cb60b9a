"""The most memory that a call and its backward pass need at once, in bytes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_doctor.memory.alive import Alive
from autograd_doctor.memory.calling import called
from autograd_doctor.memory.leaves import fresh_leaves
from autograd_doctor.memory.surroundings import gradients_lent, random_states_kept


def peak_bytes(fn: Any, *inputs: Any, backward: bool = True) -> int:
    """Return the most bytes that ``fn(*inputs)`` and its backward pass have in use at once.

    Counted is all memory that the two passes make: intermediate results, outputs, what is kept, the
    gradients that arrive (ones) and those that stay in ``.grad``. Inputs and parameters are there
    before and do not count. ``backward=False`` runs forward alone, still recording a graph.

    On the CPU each storage counts from the operation that makes it to the end of its last tensor;
    the scratch memory of a single kernel is not seen, nor are process-wide caches. On CUDA the
    allocator is asked, which sees kernels' workspaces too, for the bytes that were requested, not
    rounded up; the call is made once before, so that what libraries set up at first use is not
    counted.

    ``fn``, the copying of ``inputs``, what is raised and what is put back are as for
    :func:`kept_bytes`; gradients of parameters are put back too.
    """
    devices = {it.device for it in inputs if isinstance(it, Tensor) and it.is_cuda}
    if len(devices) == 1:
        (device,) = devices
        _passes(fn, inputs, backward)
        return _requested(device, lambda: _passes(fn, inputs, backward))
    alive = Alive()
    _passes(fn, inputs, backward, alive)
    return alive.high


def _passes(fn: Any, inputs: Sequence[Any], backward: bool, watch: Any = None) -> None:
    """Run forward and backward, the copies of the inputs made outside of what is watched."""
    leaves = fresh_leaves(inputs)
    with random_states_kept():
        with watch or torch.enable_grad():
            outputs = called(fn, leaves)
        if backward:
            with gradients_lent(outputs), watch or torch.enable_grad():
                torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


def _requested(device: torch.device, run: Callable[[], None]) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_stats(device)["requested_bytes.all.current"]
    run()
    torch.cuda.synchronize(device)
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.peak"] - before)
