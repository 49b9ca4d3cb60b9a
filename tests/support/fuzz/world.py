"""State that a call must not change: the caller's tensors and the state of the process."""

from __future__ import annotations

import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in an argument, which may itself be a tensor."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, torch.nn.Module):
        yield from (*value.parameters(), *value.buffers())
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item) if item is not value else ()
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def snapshot(value: Any) -> dict[str, Any]:
    """Return everything that must not change, by name."""
    found = {f"tensor {i}": _tensor(x) for i, x in enumerate(tensors_in(value))}
    return found | {name: look() for name, look in _STATE.items()}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of everything that has changed."""
    return [name for name in before if before[name] != after[name]]


def _tensor(x: Tensor) -> tuple[Any, ...]:
    if is_lazy(x) or x.is_nested:
        return (id(x),)
    grad = x.grad if x.is_leaf else None  # reading .grad of other tensors causes a warning
    about = (id(x), x.dtype, tuple(x.shape), x.layout, x.requires_grad, id(grad))
    if x.is_meta or x.layout is not torch.strided or x.is_quantized:
        return about
    memory = (x.data_ptr(), x.stride(), -1 if x.is_inference() else x._version)
    return (*about, *memory, _bytes(x), b"" if grad is None else _bytes(grad))


def _bytes(x: Tensor) -> bytes:
    if not x.numel():
        return b""
    plain = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    packed = torch.empty(plain.shape, dtype=plain.dtype)  # a one-element clone keeps its strides
    return packed.copy_(plain.as_subclass(Tensor)).view(-1).view(torch.uint8).numpy().tobytes()


_STATE: dict[str, Callable[[], Any]] = {
    "torch's random state": lambda: torch.get_rng_state().numpy().tobytes(),
    "Python's random state": random.getstate,
    "NumPy's random state": lambda: repr(np.random.get_state()),
    "the default dtype": torch.get_default_dtype,
    "grad mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "autocast": lambda: torch.is_autocast_enabled("cpu"),
    "anomaly mode": torch.is_anomaly_enabled,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "warning filters": lambda: list(warnings.filters),
    "showwarning": lambda: warnings.showwarning,
    "threads": torch.get_num_threads,
    "standard output": lambda: (sys.stdout, sys.stderr),
    "tracing": lambda: (sys.gettrace(), sys.getprofile()),
    "the recursion limit": sys.getrecursionlimit,
    "the alarm": lambda: signal.getsignal(signal.SIGALRM),
}
