"""The inputs that ``diagnose`` passes to a Function. They are the example and its variations."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

from autograd_doctor._numerics.structure import another, sorted_like, structure_of
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.errors import CannotDiagnoseError

# Special values that replace elements of an example. A value that maps to n replaces one in n
# elements.
SINGULAR = {0.0: 4, 1.0: 8, -1.0: 8}

_MEMINFO = Path("/proc/meminfo")
LARGE = 2**20  # inputs up to this size always fit
# Bytes of memory per element for a wrong Function, as measured by benchmarks/large_inputs.py. A
# correct Function needs half as much.
BYTES_FOR_ONE = 2500


def wanted(case: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the tensors that require grad.

    If no tensor does, return the positions of all floating-point tensors.
    """
    floating = [i for i, value in enumerate(case) if is_float(value)]
    if not floating:
        raise CannotDiagnoseError(
            "no input is a floating-point or complex tensor: pass at least one, for example "
            "torch.randn(3, 4)."
        )
    asking = [i for i in floating if case[i].requires_grad]
    return tuple(asking or floating)


def require_dense(case: Sequence[Any]) -> None:
    """Raise an error for tensors without values, or with an unsupported layout or dtype."""
    for value in case:
        if isinstance(value, Tensor) and (what := _unfit(value)):
            raise CannotDiagnoseError(f"an input is {what}.")


def _unfit(value: Tensor) -> str:
    if is_lazy(value):
        return "an uninitialized parameter: call its module once first"
    if value.is_nested:
        return "a nested tensor, which diagnose does not support: pass an ordinary tensor"
    if not is_float(value):
        return ""
    if isinstance(value, FakeTensor):
        return "a FakeTensor, which has no numbers: pass one created outside FakeTensorMode"
    if value.layout is not torch.strided:
        return "sparse, which diagnose does not support: pass x.to_dense()"
    if value.is_meta:
        return "on the meta device, where tensors have no numbers: pass one on the CPU"
    eight_bits = value.dtype.itemsize == 1
    return (
        f"of {value.dtype}, which diagnose does not support: pass x.float()" if eight_bits else ""
    )


def require_initialized(fn: Any) -> None:
    """Raise an error for a lazy module, which creates its parameters on its first call."""
    held = (*fn.parameters(), *fn.buffers()) if isinstance(fn, nn.Module) else ()
    if any(map(is_lazy, held)):
        name = type(fn).__name__
        raise CannotDiagnoseError(
            f"{name} has uninitialized parameters: call the module once first."
        )


def require_eager(**given: Any) -> None:
    """Raise an error for code that ``torch.compile`` has wrapped.

    A second call to such code may use a graph that was compiled for other inputs. With inductor, a
    second backward pass may find that its buffers have been donated. Neither is a mistake in the
    Function.
    """
    for name, thing in given.items():
        parts = thing.modules() if isinstance(thing, nn.Module) else (thing,)
        if any(map(_is_compiled, parts)):
            raise CannotDiagnoseError(
                f"`{name}` contains code that torch.compile has wrapped, and diagnose examines "
                'eager code: pass the original. With level="full", diagnose compiles each '
                "Function itself and compares the results."
            )


def _is_compiled(thing: Any) -> bool:
    """Return whether ``torch.compile`` has wrapped a module or a function.

    ``torch.compiler.disable`` creates the same kinds of wrappers, but they run eager code.
    """
    call = thing
    if isinstance(thing, nn.Module):
        if thing._compiled_call_impl is not None:  # set by Module.compile
            return True
        call = thing.forward if "_orig_mod" in thing._modules else None
    disabled = getattr(call, "_torchdynamo_disable", False)
    return hasattr(call, "_torchdynamo_orig_callable") and not disabled


def require_room(case: Sequence[Any]) -> None:
    """Raise an error if the tensors are so large that the evidence would not fit in memory."""
    sizes: Counter[torch.device] = Counter()
    for value in case:
        if is_float(value):
            sizes[value.device] += value.numel()
    for device, count in sizes.items():
        if count < LARGE:
            continue
        needed, free = count * BYTES_FOR_ONE / 1e9, _free_memory(device) / 1e9
        if needed > free:
            raise CannotDiagnoseError(
                f"the inputs hold {count:,} numbers: diagnose needs about {needed:.0f} GB for "
                f"them, and only {free:.0f} GB are free. Pass a smaller example of a few thousand "
                "numbers."
            )


def _free_memory(device: torch.device) -> int:
    """Return the number of free bytes on a GPU. For any other device, return the free RAM."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if not _MEMINFO.exists():  # only Linux has this file
        return sys.maxsize
    found = re.search(r"MemAvailable:\s+(\d+) kB", _MEMINFO.read_text())
    return int(found[1]) * 1024 if found else sys.maxsize


def in_double(value: Any) -> Any:
    """Return a floating-point or complex tensor as a contiguous float64 or complex128 tensor.

    Integer tensors and plain numbers do not change.
    """
    if not isinstance(value, Tensor):
        return value
    dtype = torch.complex128 if value.is_complex() else torch.float64
    return value.detach().to(dtype).contiguous() if is_float(value) else value.detach()


def all_in_double(case: Sequence[Any], own: Sequence[torch.dtype | None] = ()) -> list[Any]:
    """Return the arguments of a call in float64 or complex128.

    An argument can itself be a dtype, which selects the precision of the call. If it matches the
    dtype of one of the tensors, also replace it with float64 or complex128. ``own`` holds the
    dtypes of the caller's tensors, if they differ from those in ``case``.
    """
    doubled = [in_double(value) for value in case]
    dtypes = zip(own or own_dtypes(case), doubled, strict=True)
    known = {dtype: value.dtype for dtype, value in dtypes if is_float(value)}
    return [known.get(v, v) if isinstance(v, torch.dtype) else v for v in doubled]


def own_dtypes(case: Sequence[Any]) -> tuple[torch.dtype | None, ...]:
    """Return the dtype of each floating-point or complex tensor, or ``None`` for other values."""
    return tuple(value.dtype if is_float(value) else None for value in case)


def varied(case: Sequence[Any], rng: torch.Generator) -> tuple[Any, ...]:
    """Return random inputs with the same ranges, signs and structures as the example.

    If every element of one tensor is less than the corresponding element of another tensor, keep
    this order. An example is a tensor of lower bounds. Tensors that need no gradient keep their
    values, because ``backward`` might be correct only for these values. Examples are targets that
    sum to one, masks, and the cosines of a rotation matrix.
    """
    places = wanted(case)
    found = [another(in_double(v), rng) if i in places else v for i, v in enumerate(case)]
    for low, high in permutations(places, 2):
        if _lies_below(case[low], case[high]):
            found[low], found[high] = (
                torch.minimum(*(pair := (found[low], found[high]))),
                (torch.maximum(*pair)),
            )
    return tuple(
        value.requires_grad_(case[i].requires_grad) if i in places else value
        for i, value in enumerate(found)
    )


def hides_mistakes(value: Any) -> bool:
    """Return whether a number can hide a mistake.

    A factor of 1 or a term of 0 does not change any gradient.
    """
    return type(value) is float and value in OTHER_NUMBERS


def with_other_numbers(case: Sequence[Any]) -> tuple[Any, ...]:
    """Return the example with other numbers in place of 0.0 and 1.0, which may hide a mistake."""
    return tuple(OTHER_NUMBERS[v] if hides_mistakes(v) else v for v in case)


OTHER_NUMBERS = {0.0: 0.25, 1.0: 0.75}  # also valid as probabilities


def singular(case: Sequence[Any], rng: torch.Generator) -> tuple[Any, ...]:
    """Insert 0, 1, -1 and two equal values into the example, if its range allows them.

    With such inputs, formulas are most likely to divide by zero.
    """
    places = wanted(case)
    return tuple(
        _with_singular_elements(v.detach(), rng).requires_grad_(v.requires_grad)
        if i in places
        else v
        for i, v in enumerate(case)
    )


def _with_singular_elements(value: Tensor, rng: torch.Generator) -> Tensor:
    if value.is_complex() or value.numel() < len(SINGULAR) + 2 or structure_of(value) is not None:
        return value.clone()
    if bool((value == value.round()).all()):
        return value.clone()
    low, high = float(value.min()), float(value.max())
    found = value.clone(memory_format=torch.contiguous_format)
    order = torch.randperm(value.numel(), generator=rng).tolist()
    for number, share in SINGULAR.items():
        if low <= number <= high:
            for _ in range(max(1, value.numel() // share)):
                found.view(-1)[order.pop()] = number
    rows = found.view(-1, found.shape[-1])
    if rows.shape[1] > 1:
        row, column = divmod(order[0], rows.shape[1])
        rows[row, column] = rows[row, column - 1]
    return sorted_like(value, found)


def _lies_below(low: Tensor, high: Tensor) -> bool:
    comparable = low.shape == high.shape and not (low.is_complex() or high.is_complex())
    return comparable and low.numel() > 0 and bool((low < high).all())


def beside(value: Any, kinks: Tensor | None, rng: torch.Generator) -> Any:
    """Move each element at a kink.

    The element moves away from zero by 0.1 to 0.2 times the typical magnitude.

    A tensor with a structure does not change, because moving a single element would break it.
    """
    if kinks is None or not len(kinks) or structure_of(value) is not None:
        return value
    typical = float(value.abs().square().mean().sqrt()) or 1.0
    steps = 0.1 * typical * (1 + torch.rand(len(kinks), generator=rng, dtype=torch.float64))
    moved = value.detach().clone().contiguous()
    at = kinks.to(value.device)
    old = moved.view(-1)[at]
    away = torch.where(old == 0, torch.ones_like(old), torch.sgn(old))
    moved.view(-1)[at] = old + steps.to(value.device) * away
    return moved.requires_grad_(value.requires_grad)
