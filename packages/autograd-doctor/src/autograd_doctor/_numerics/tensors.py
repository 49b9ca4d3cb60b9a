"""Small helper functions that examine tensors and other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def is_float(value: Any) -> bool:
    """Return whether a value is a tensor that can have a gradient."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def is_wrapped(tensor: Tensor) -> bool:
    """Return whether a ``torch.func`` transform wraps this tensor. The transform may have ended."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


_PLAIN = (Tensor, int, float, complex, str, torch.dtype, torch.device)


def is_plain(value: Any, deepest: int = 20) -> bool:
    """Return whether a value is plain data, without objects that can hold tensors."""
    if isinstance(value, tuple | list):  # a container may contain itself
        inside = deepest and all(is_plain(item, deepest - 1) for item in value)
        return bool(inside) and not any(isinstance(item, Tensor) for item in value)
    return value is None or isinstance(value, _PLAIN)


def on_cpu(value: Any) -> Any:
    """Copy a tensor on another device to the CPU. Return every other value unchanged."""
    if not isinstance(value, Tensor) or value.device.type in ("cpu", "meta"):
        return value
    return value.detach().cpu().requires_grad_(value.requires_grad)


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """Return a call's result as a tuple of outputs."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same values. NaN counts as equal to NaN."""
    if one.shape != other.shape or one.layout != other.layout:
        return False
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    return bool(((one == other) | ((one != one) & (other != other))).all())


def changed(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the tensors whose values have changed."""
    return tuple(
        i
        for i, (was, now) in enumerate(zip(before, after, strict=True))
        if isinstance(was, Tensor) and not was.is_meta and not same_bytes(was, now.detach())
    )


def is_number(value: Any) -> bool:
    """Return whether a value is a plain number. A bool does not count as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: Any) -> float | None:
    """Return a number, or the element of a real one-element tensor, as a float."""
    if is_float(value) and value.numel() == 1 and not value.is_complex():
        return float(value)
    if type(value) in (int, float) and abs(value) < 2**63:  # a larger int might not fit in a float
        return float(value)
    return None
