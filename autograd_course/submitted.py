"""Describe a learner's answer as data: its kind, its arguments and its missing parts.

The grader calls this module in its own process, and the classroom grader calls it in a sandbox.
Therefore, this module does not depend on any exercise and writes no messages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import EllipsisType
from typing import Any, Literal, get_args

import numpy as np
import torch
from autograd_doctor.extension import CapturedState
from torch import Tensor
from torch.autograd import Function, forward_ad

from autograd_course.calls import is_float, takes_ctx
from autograd_course.execution import Inputs, is_unfinished

# The kinds of objects that are not an answer to the exercise.
WrongThing = Literal[
    "apply",
    "Function instance",
    "Module class",
    "other class",
    "no class",
    "Function class",
    "no function",
]
Kind = WrongThing | Literal["right", "nothing", "base class"]
KINDS = {*get_args(WrongThing), "right", "nothing", "base class"}


@dataclass(frozen=True)
class Submitted:
    """The kind and the name of an answer."""

    kind: Kind
    name: str = ""


def submitted_function(answer: Any) -> Submitted:
    """Return a description of the answer to an exercise that asks for a Function class."""
    if answer is None or answer is ...:
        return Submitted("nothing")
    owner = getattr(answer, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Function):
        return Submitted("apply", owner.__name__)
    if isinstance(answer, type):
        return _class(answer)
    if isinstance(answer, Function):
        return Submitted("Function instance", type(answer).__name__)
    named = "a plain function" if callable(answer) and not _is_object(answer) else _kind(answer)
    return Submitted("no class", named)


def _class(answer: type) -> Submitted:
    if answer is Function:
        return Submitted("base class")
    if issubclass(answer, Function):
        return Submitted("right", answer.__name__)
    is_module = issubclass(answer, torch.nn.Module)
    return Submitted("Module class" if is_module else "other class", answer.__name__)


def _is_object(answer: Any) -> bool:
    return isinstance(answer, torch.nn.Module) or not hasattr(answer, "__name__")


def _kind(answer: Any) -> str:
    name = type(answer).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def submitted_routine(answer: Any) -> Submitted:
    """Return a description of the answer to an exercise that asks for a plain function."""
    if answer is None or answer is ...:
        return Submitted("nothing")
    if isinstance(answer, type) and issubclass(answer, Function):
        return Submitted("Function class", answer.__name__)
    if not callable(answer):
        return Submitted("no function", type(answer).__name__)
    return Submitted("right")


# --------------------------------------------------------------------------------------------------
# Does the answer accept the arguments?
# --------------------------------------------------------------------------------------------------


def forward_takes(answer: type[Function], inputs: Inputs) -> bool:
    """Return whether forward accepts these arguments.

    The result is also True if forward is not a static method, because the doctor's report explains
    that mistake better.
    """
    if inspect.isfunction(inspect.getattr_static(answer, "forward")):
        return True
    ctx = (None,) if takes_ctx(answer) else ()
    try:
        inspect.signature(answer.forward).bind(*ctx, *inputs)
    except ValueError:  # a C function, whose arguments PyTorch cannot inspect either
        return True
    except TypeError:
        return False
    return True


def routine_takes(answer: Callable[..., Any], counts: Sequence[int]) -> bool:
    """Return whether a plain function accepts each of these numbers of arguments."""
    try:
        signature = inspect.signature(answer)
    except ValueError:  # a C function, such as apply from PyTorch 2.14 on; only a call can tell
        return True
    try:
        for count in counts:
            signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


# --------------------------------------------------------------------------------------------------
# Is an additional method missing or unwritten?
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lacking:
    """A required method that a Function lacks or contains only as a stub."""

    method: str
    is_stub: bool


def lacking_method(
    answer: type[Function], methods: Sequence[str], inputs: Inputs
) -> Lacking | None:
    """Return the first method that is missing or a stub.

    The doctor checks all other aspects of the methods.
    """
    for name in methods:
        if _MISSING[name](answer):
            return Lacking(name, is_stub=False)
        try:
            with CapturedState((answer.__name__, answer)).borrow():  # its attributes
                _CALLS[name](answer, inputs)
        except Exception as error:
            if is_unfinished(error, answer):
                return Lacking(name, is_stub=True)
    return None


_MISSING: Mapping[str, Callable[[type[Function]], bool]] = {
    "setup_context": takes_ctx,
    "vmap": lambda answer: answer.vmap is Function.vmap and not answer.generate_vmap_rule,
    "jvp": lambda answer: answer.jvp is Function.jvp,
}


def _vmapped(answer: type[Function], inputs: Inputs) -> None:
    dims = tuple(0 if is_float(value) else None for value in inputs)
    stacked = [torch.stack([v, v]) if is_float(v) else v for v in inputs]
    torch.func.vmap(answer.apply, dims)(*stacked)


def _pushed(answer: type[Function], inputs: Inputs) -> None:
    with forward_ad.dual_level():
        answer.apply(*(forward_ad.make_dual(v, v.clone()) if is_float(v) else v for v in inputs))


_CALLS: Mapping[str, Callable[[type[Function], Inputs], Any]] = {
    "setup_context": lambda answer, inputs: None,  # each earlier call has run it
    "vmap": _vmapped,
    "jvp": _pushed,
}


def other_container(returned: Any, container: str) -> str:
    """Return the collection type of the results if it is the wrong one, or an empty string."""
    if not container or isinstance(returned, Tensor) or not isinstance(returned, Collection):
        return ""
    return "" if isinstance(returned, _CONTAINERS[container]) else type(returned).__name__


_CONTAINERS: Mapping[str, type] = {"tuple": tuple, "list": list, "dict": dict}


# --------------------------------------------------------------------------------------------------
# Predicted numbers
# --------------------------------------------------------------------------------------------------


def numbers(answer: Any) -> list[float | None] | None:
    """Return the numbers in an answer, with ``None`` for ``...``, or ``None`` for other answers."""
    try:
        return [*_numbers(answer)]
    except (RuntimeError, TypeError, ValueError):  # RuntimeError: a tensor with several dims
        return None


def _numbers(answer: Any) -> Iterator[float | None]:
    """Yield the numbers in an answer, with ``None`` for each missing number."""
    match answer:
        case None | EllipsisType():
            yield None
        case str():
            yield from map(float, answer.split(","))
        case list() | tuple():
            for number in answer:
                yield from _numbers(number)
        case Tensor() | np.ndarray() if answer.ndim == 1:
            yield from answer.tolist()
        case Real() | Tensor() | np.ndarray():
            yield float(answer)
        case _:
            raise TypeError
