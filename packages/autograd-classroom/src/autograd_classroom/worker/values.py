"""Convert the results of an answer to frames.

This module replaces a value that cannot be sent with the name of its type. It replaces results that
cannot be examined, such as sparse tensors or far too many values, with a sentence that tells the
student what to change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.frames import LONGEST_PAYLOAD
from autograd_classroom.protocol.wire import pack
from autograd_course.calls import as_tuple, is_float
from autograd_course.execution import Raised, differentiable

MOST = 100  # maximum number of values that a call may return; exercises ask for a few
_MOST_SAVED = 10_000  # a loop may save a tensor in each iteration
_PLAIN = (Tensor, nn.Parameter)  # an instance of a subclass may define its own operations
_NUMBERS = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    # Tensors of these dtypes can also be sent, but only their dtypes are compared.
    torch.uint64, torch.uint32, torch.uint16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.complex32,
}  # fmt: skip
_SAVES = "forward saves"
_DTYPES = (None, torch.float64, torch.float32, torch.bfloat16)  # None keeps the inputs' dtypes


# Exceptions that an answer may raise. SystemExit is included, but interrupts are not.
_RAISED = (Exception, SystemExit, GeneratorExit)


def kind(value: Any) -> str:
    """Return the kind of a tensor if its numbers cannot be compared, otherwise an empty string."""
    if not isinstance(value, Tensor):
        return ""
    if type(value) not in _PLAIN:
        return type(value).__name__
    if value.is_nested:
        return "nested Tensor"
    if value.is_quantized:
        return "quantized Tensor"
    if value.layout is not torch.strided:
        return "sparse Tensor"
    if value.device.type != "cpu":
        return f"{value.device.type} Tensor"
    if value.dtype not in _NUMBERS:
        return f"{value.dtype} Tensor"
    if value.numel() * value.itemsize > LONGEST_PAYLOAD:
        return f"Tensor of {value.numel():,} numbers"
    return ""


def too_many(answer: type[Function], inputs: Sequence[Any]) -> str:
    """Return a sentence if the answer has too many results to examine, otherwise ``""``."""
    with contextlib.suppress(*_RAISED):
        for what, values in _made(answer, inputs):
            if found := _many(what, values):
                return found
    return ""


def unusual(answer: type[Function], inputs: Sequence[Any]) -> str:
    """If an answer returns or saves a value that cannot be examined, return a sentence about it.

    Otherwise, return an empty string.
    """
    for dtype in _DTYPES:
        with contextlib.suppress(*_RAISED):
            for what, values in _made(answer, [_of(value, dtype) for value in inputs]):
                if found := _many(what, values):
                    return found
                for named in filter(None, map(kind, values)):
                    return (
                        f"{what} a value of type {named}, which cannot be examined: use a dense "
                        "tensor on the CPU."
                    )
    return ""


def _many(what: str, values: tuple[Any, ...]) -> str:
    more = len(values) > (_MOST_SAVED if what == _SAVES else MOST)
    return f"{what} {len(values):,} values, far more than the exercise asks for." if more else ""


def _made(answer: type[Function], inputs: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the outputs of ``forward``, the saved tensors, and the outputs of ``backward``.

    Each item has a description, such as ``"forward returns"``.
    """
    outputs = as_tuple(answer.apply(*differentiable(tuple(inputs))))
    yield "forward returns", outputs
    tensors = [out for out in outputs if isinstance(out, Tensor)]
    node: Any = next(out.grad_fn for out in tensors if out.grad_fn is not None)
    yield _SAVES, tuple(node.saved_tensors)
    with torch.no_grad():
        yield "backward returns", as_tuple(node.apply(*map(torch.ones_like, tensors)))


def _of(value: Any, dtype: torch.dtype | None) -> Any:
    return value.to(dtype) if dtype and is_float(value) and not value.is_complex() else value


_PLAIN_VALUES = (bool, int, float, str, type(None))
_DEPTH = 8  # maximum nesting depth of lists


def raised(came: Raised) -> Frame:
    """Return a frame that describes the exception that a call raised."""
    said = {"raised": came.told, "unwritten": came.unwritten, "separate": came.separate}
    return Frame(said)


def returned(values: tuple[Any, ...]) -> Frame:
    """Return a frame with the results of a call.

    ``types`` in the frame maps the position of each value that cannot be sent to its type name.
    """
    if len(values) > MOST:
        what = f"it returns {len(values):,} values, far more than the exercise asks for."
        return Frame({"unfit": what})
    stays = {str(place): _named(value) for place, value in enumerate(values) if not travels(value)}
    sent = tuple(None if str(place) in stays else value for place, value in enumerate(values))
    return Frame({"types": stays}, pack(sent))


def travels(value: Any, depth: int = _DEPTH) -> bool:
    """Return whether a value can be sent."""
    if isinstance(value, Tensor):
        return not kind(value)
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, tuple | list):
        inside = depth > 0 and len(value) <= MOST
        return inside and all(travels(item, depth - 1) for item in value)
    return isinstance(value, _PLAIN_VALUES)


def _named(value: Any) -> str:
    return kind(value) or type(value).__name__
