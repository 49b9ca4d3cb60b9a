"""Call the user's code on fresh copies, and note what happened as data."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Failure

T = TypeVar("T")

_OURS_OR_TORCHS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"]


def attempt(call: Callable[[], T]) -> T | Failure:
    """Return what the call returns, or the :class:`Failure` where the user's code raises."""
    try:
        return call()
    except (Exception, SystemExit) as error:  # a student's sys.exit() must not end the grader
        return Failure(type(error).__name__, str(error).strip(), users_line(error))


def users_line(error: BaseException) -> str:
    """Return the innermost line of the user's own code that an exception passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.line and _is_the_users(frame.filename)]
    return f"{own[-1].name}: {own[-1].line}" if own else ""


def _is_the_users(filename: str) -> bool:
    standard = filename.startswith(_STANDARD_LIBRARY) and "site-packages" not in filename
    return not standard and not filename.startswith(_OURS_OR_TORCHS)


def is_float(value: Any) -> bool:
    """Whether a value is a tensor that can carry a gradient."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """Return a call's result as a tuple of outputs."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def fresh(
    inputs: Sequence[Any], wanted: Sequence[int], move: Callable[[Tensor], Tensor] = lambda t: t
) -> tuple[list[Tensor], list[Any]]:
    """Return new leaves for the wanted inputs, and the arguments of a call made from them.

    The arguments are clones, not the leaves themselves: an in-place Function may change a clone.
    """
    leaves, args = [], []
    for position, value in enumerate(inputs):
        if position in wanted:
            leaf = move(value).detach().clone().requires_grad_()
            leaves.append(leaf)
            args.append(leaf.clone())
        else:
            args.append(_copy(value, move))
    return leaves, args


def _copy(value: Any, move: Callable[[Tensor], Tensor]) -> Any:
    if not isinstance(value, Tensor):
        return value
    return (move(value) if is_float(value) else value).detach().clone()


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same values, NaN counting as equal to NaN."""
    return one.shape == other.shape and bool(
        ((one == other) | ((one != one) & (other != other))).all()
    )
