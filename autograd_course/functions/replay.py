"""Rerun a callable under the same conditions without repeating its side effects."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


class Replay:
    """Run ``fn`` in forward, and rerun it in backward with the same result.

    ``first`` runs ``fn`` and stores the conditions of this run. If ``fn`` draws random numbers,
    ``first`` stores the random states of the CPU and of the arguments' GPUs from before the run. It
    also stores the autocast settings, and the old values of all buffers of ``modules`` that ``fn``
    changes, such as the running mean of a batch norm. ``again`` reruns ``fn`` under these
    conditions. Then it restores the caller's random states and the modules' buffers, so that each
    batch counts only once.

    ``again`` does not restore the random states of Python and NumPy or any other state of ``fn``.
    """

    def __init__(self, fn: Callable[..., Any], modules: Iterable[nn.Module] = ()) -> None:
        self.fn = fn
        # In eval mode, modules should not write to their buffers, so do not copy the buffers.
        inner = {m for module in modules for m in module.modules() if m.training}
        self._slots = [(m, name) for m in inner for name, b in m._buffers.items() if b is not None]
        self._buffers: list[tuple[nn.Module, str, Tensor]] = []
        self._states: list[tuple[torch.device, Tensor]] = []
        self._autocasts: list[dict[str, Any]] = []

    def first(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``fn(*args, **kwargs)`` and store the conditions under which it ran."""
        devices = _devices((args, kwargs))
        self._autocasts = [_autocast(kind) for kind in {device.type for device in devices}]
        states = [(device, _random_state(device)) for device in devices]
        before = [_buffer(slot).detach().clone() for slot in self._slots]
        with self._autocast():
            result = self.fn(*args, **kwargs)
        self._states = [(d, s) for d, s in states if not torch.equal(s, _random_state(d))]
        # Compare values, because batch_norm's kernel writes the running statistics without
        # advancing the version counter.
        pairs = zip(self._slots, before, strict=True)
        self._buffers = [(*slot, old) for slot, old in pairs if not torch.equal(old, _buffer(slot))]
        return result

    def again(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``fn(*args, **kwargs)`` under the conditions of the first run."""
        with self._autocast(), _randomness(self._states), _lent(self._buffers):
            return self.fn(*args, **kwargs)

    def _autocast(self) -> ExitStack:
        with ExitStack() as stack:
            for autocast in self._autocasts:
                stack.enter_context(torch.autocast(**autocast))
            return stack.pop_all()


def _devices(values: Any) -> list[torch.device]:
    """Return the CPU and the GPUs of the tensors among ``values``."""
    tensors = (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))
    return [torch.device("cpu"), *{tensor.device for tensor in tensors if tensor.is_cuda}]


def _autocast(kind: str) -> dict[str, Any]:
    return {
        "device_type": kind,
        "enabled": torch.is_autocast_enabled(kind),
        "dtype": torch.get_autocast_dtype(kind),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextmanager
def _randomness(states: Sequence[tuple[torch.device, Tensor]]) -> Iterator[None]:
    """Set these random states inside the ``with`` block, and then restore the previous states."""
    gpus = [device for device, _ in states if device.type == "cuda"]
    with torch.random.fork_rng(devices=gpus, enabled=bool(states)):
        for device, state in states:
            if device.type == "cuda":
                torch.cuda.set_rng_state(state, device)
            else:
                torch.set_rng_state(state)
        yield


def _buffer(slot: tuple[nn.Module, str]) -> Tensor:
    module, name = slot
    found = module._buffers[name]
    assert found is not None
    return found


@contextmanager
def _lent(buffers: Sequence[tuple[nn.Module, str, Tensor]]) -> Iterator[None]:
    """Replace the modules' buffers with copies of ``buffers`` inside the ``with`` block."""
    own = [_buffer((module, name)) for module, name, _ in buffers]
    for module, name, value in buffers:
        module._buffers[name] = value.clone()
    try:
        yield
    finally:
        for (module, name, _), buffer in zip(buffers, own, strict=True):
            module._buffers[name] = buffer
