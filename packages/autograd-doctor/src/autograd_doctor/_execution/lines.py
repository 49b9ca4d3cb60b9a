"""Find the line of user code that changed a tensor, or the line at which two runs start to differ.

An exception records the line that raised it, but an in-place change to a tensor leaves no record.
This module therefore re-runs the pass and records each operation with the line that called it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, users_last
from autograd_doctor._numerics.tensors import changed, is_float, same_bytes
from autograd_doctor.memory import DispatchMode, iter_tensors, operation_name

MOST_NUMBERS = 2**16  # elements in an operation's result; larger results are not compared


@dataclass(frozen=True)
class _Step:
    """An operation: its name, the line of user code, and copies of its results."""

    operation: str
    line: str
    results: tuple[Tensor, ...]


class _Steps(DispatchMode):
    """A context manager that records operations and the first change to a watched tensor."""

    def __init__(self, watched: Sequence[Tensor] = (), *, keep_results: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[_Step] = []
        self.changing_line = ""
        self._watched, self._before = watched, [t.detach().clone() for t in watched]
        self._keep_results = keep_results

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and record it."""
        result = func(*args, **(kwargs or {}))
        if self._keep_results:
            kept = tuple(
                t.detach().clone() for t in iter_tensors([result]) if t.numel() <= MOST_NUMBERS
            )
            self.steps.append(_Step(operation_name(func), _line(), kept))
        elif not self.changing_line and changed(self._before, self._watched):
            self.changing_line = _line()
        return result


def line_that_changes(call: Callable[[], object], watched: Sequence[Tensor]) -> str:
    """Return the line at which a call changes a watched tensor, or ``""`` if unknown."""
    with _Steps(watched) as seen:
        attempt(call)
    return seen.changing_line


def line_with_nan(call: Callable[[], object]) -> str:
    """Return the line at which a call produces the first nan, or ``""`` if unknown."""
    with _Steps(keep_results=True) as seen:
        attempt(call)
    steps = (it for it in seen.steps if it.line and any(map(_has_nan, it.results)))
    return next((step.line for step in steps), "")


def _has_nan(tensor: Tensor) -> bool:
    return is_float(tensor) and bool(tensor.isnan().any())


def line_that_differs(plain: Callable[[], object], other: Callable[[], object]) -> str:
    """Return the first line at which two runs of the same code produce different results."""
    ways = []
    for call in (plain, other):
        with _Steps(keep_results=True) as seen:
            attempt(call)
        ways.append(seen.steps)
    one, two = ways
    names = [[step.operation for step in way] for way in ways]
    for block in SequenceMatcher(a=names[0], b=names[1], autojunk=False).get_matching_blocks():
        for k in range(block.size):
            first, second = one[block.a + k], two[block.b + k]
            if second.line and not _alike(first.results, second.results):
                return second.line
    return ""


def _alike(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and (same_bytes(a, b) or _near(a, b))
        for a, b in zip(one, other, strict=True)
    )


def _near(one: Tensor, other: Tensor) -> bool:
    """Whether two results agree up to rounding. Memory layout can change the order of additions."""
    if not (one.is_floating_point() or one.is_complex()) or one.dtype != other.dtype:
        return False
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)


def _line() -> str:
    """Return the running line of user code, ignoring the lines that started the diagnosis."""
    frames = traceback.extract_stack()
    ours = [k for k, f in enumerate(frames) if f.filename == __file__ and f.name in _STARTS]
    return users_last(frames[ours[-1] :] if ours else frames)


_STARTS = (line_that_changes.__name__, line_with_nan.__name__, line_that_differs.__name__)
