"""How many bytes a model's parameters and buffers take, quantized ones included."""

from collections.abc import Iterator

from torch import Tensor, nn

from autograd_doctor.memory.storages import keyed


def stored_bytes(module: nn.Module) -> int:
    """Return the bytes of all tensors in ``module.state_dict()``, each storage once.

    A tensor subclass that wraps others, as torchao's quantized weights do, counts as what it wraps.
    Counted is what lies in memory: a format of four bits that keeps each value in a byte is a byte.
    """
    parts = [part for tensor in module.state_dict().values() for part in _unwrapped(tensor)]
    return sum({key: storage.nbytes() for key, storage, _ in keyed(parts)}.values())


def _unwrapped(tensor: object) -> Iterator[Tensor]:
    """Yield the plain tensors that a tensor is made of."""
    if not isinstance(tensor, Tensor):  # a module's extra state may be anything
        return
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten()[0]:
        yield from _unwrapped(getattr(tensor, name))
