"""Find what an answer keeps in memory after the output of a call and its ctx are gone."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import LiveStorages
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import differentiable
from autograd_course.grader.checks.calling import found

_CALLS = 4
_TIMES = 3  # how often to measure
_MANY = 100  # numbers; the memory of Python's own objects hides fewer of them
_BYTES = 512  # PyTorch and Python keep less than this for a call
# Python's originals, because an answer may replace the names while it runs
_collect, _start, _stop = gc.collect, tracemalloc.start, tracemalloc.stop
_measured = tracemalloc.get_traced_memory


def nothing_outlives_the_call(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Require that nothing a call creates stays in memory after its output is gone.

    A Function passes data from ``forward`` to ``backward`` in ``ctx`` alone. The check calls the
    answer, drops the output, and looks for tensors that are still in memory. If the inputs are
    large, it also measures the memory of all other objects, such as arrays and lists. The first
    call does not count, because it may fill tables that later calls share. The inputs of each call
    differ a little, because code could keep one entry for all calls with the same inputs.
    """
    _call(function, inputs, 1)
    with LiveStorages() as live:
        _call(function, inputs, 1)
        if live.made:
            _collect()
    if left := list(live.made.values()):
        largest = max(left, key=lambda made: made.bytes)
        what, size = f"a tensor of shape {largest.shape}", sum(made.bytes for made in left)
    else:
        numbers = max((it.numel() for it in inputs if isinstance(it, Tensor)), default=0)
        most = _BYTES + numbers // 2
        size = _grown(function, inputs, most) if numbers >= _MANY else 0
        if size <= most:
            return None
        what = f"{size:,} bytes of memory that belong to no tensor"
    return found(
        "oversaved",
        f"After the output of a call is gone, {what} can still be reached. Something other than "
        "`ctx` holds it.",
        {"bytes": size},
        "Pass tensors to `ctx.save_for_backward`. PyTorch frees them together with the graph.",
    )


def _call(function: type[Function], inputs: tuple[Any, ...], calls: int) -> None:
    """Call the answer several times, then drop all outputs. Each call has its own ctx."""
    outputs = [function.apply(*differentiable(_next_to(inputs))) for _ in range(calls)]
    del outputs
    _collect(1)  # only young objects, because a full collection takes long in a large notebook


_number = itertools.count(1)


def _next_to(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return inputs that differ a little from those of all earlier calls."""
    factor = 1 + next(_number) * 2.0**-40
    return tuple(value * factor if _is_double(value) else value for value in inputs)


def _is_double(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.float64, torch.complex128)


def _grown(function: type[Function], inputs: tuple[Any, ...], most: int) -> int:
    """Return how many bytes each call adds to the memory of Python's objects.

    A table of Python or PyTorch may grow during one of the calls, so measure several times, and
    return the smallest result. Stop if a result is at most ``most``.
    """

    def added() -> int:
        return (_measured()[0] - before) // (2 * _CALLS)

    _start()
    try:
        _call(function, inputs, _CALLS)  # later calls reuse the memory of some objects
        sizes: list[int] = []
        while len(sizes) < _TIMES and (not sizes or sizes[-1] > most):
            before, _ = _measured()
            _call(function, inputs, 2 * _CALLS)
            if added() > most:
                _collect()
            sizes.append(added())
        return min(sizes)
    finally:
        _stop()
