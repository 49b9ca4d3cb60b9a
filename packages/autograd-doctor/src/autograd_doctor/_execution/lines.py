"""Find the line of user code that changed a tensor, or the line at which two runs start to differ.

An exception records the line that raised it, but an in-place change to a tensor leaves no record.
This module therefore re-runs the pass and records each operation with the line that called it.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, users_last
from autograd_doctor._numerics.tensors import changed, is_float, same_bytes
from autograd_doctor.memory import DispatchMode, iter_tensors, operation_name

MOST_NUMBERS = 2**16  # maximum number of elements in a result; larger results are ignored


@dataclass(frozen=True)
class _Step:
    """An operation: its name, the line of user code, and copies of its results and operands."""

    operation: str
    line: str
    results: tuple[Tensor, ...]
    operands: tuple[Any, ...] = ()


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
        operands = tuple(map(_kept, args)) if self._keep_results else ()
        result = func(*args, **(kwargs or {}))
        if self._keep_results:
            kept = tuple(
                t.detach().clone() for t in iter_tensors([result]) if t.numel() <= MOST_NUMBERS
            )
            self.steps.append(_Step(operation_name(func), _line(), kept, operands))
        elif not self.changing_line and changed(self._before, self._watched):
            self.changing_line = _line()
        return result


def line_that_changes(call: Callable[[], object], watched: Sequence[Tensor]) -> str:
    """Return the line at which a call changes a watched tensor, or ``""`` if unknown."""
    with _Steps(watched) as seen:
        attempt(call)
    return seen.changing_line


def line_with_nan(call: Callable[[], object]) -> tuple[str, str]:
    """Return the line at which a call produces the first nan, and what this line computes there.

    Both are ``""`` if unknown. The second is an expression such as ``"0 / 0"``, or ``"nan"`` if the
    nan comes from a tensor that existed before the call.
    """
    steps = (
        it
        for it in _steps_of(call)
        if it.line and it.operation not in UNINITIALIZED and any(map(_has_nan, it.results))
    )
    return next(((step.line, _cause_of_nan(step)) for step in steps), ("", ""))


def line_not_finite(call: Callable[[], object], plain: Callable[[], object]) -> tuple[str, str]:
    """Return the first line whose result is not finite in one run but finite in a plain run.

    Also return what this line computes there, such as ``"exp(100)"``. Both are ``""`` if unknown.
    """
    for step, other in _matched(_steps_of(call), _steps_of(plain)):
        results = list(zip(step.results, other.results, strict=False))
        if step.line and any(_is_finite(b) and not _is_finite(a) for a, b in results):
            return step.line, _computed(step, lambda result: ~result.isfinite())
    return "", ""


SPARSE = (
    torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc,
)  # fmt: skip
# Operations whose results may contain arbitrary values.
UNINITIALIZED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_SIGNS = {"div": "/", "mul": "·", "sub": "-", "add": "+", "pow": "**"}
_OF_ONE = (
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "acos",
    "asin",
    "acosh",
    "atanh",
    "exp",
    "expm1",
    "cosh",
    "sinh",
    "square",
    "reciprocal",
    "logit",
    "tan",
    "erfinv",
)


def _cause_of_nan(step: _Step) -> str:
    """Return the operation and the values of its operands, such as ``"0 / 0"``."""
    return _computed(step, torch.isnan)


def _computed(step: _Step, chosen: Callable[[Tensor], Tensor]) -> str:
    """Return the operation and the values of its operands at the result's first chosen element.

    Return ``""`` for a sparse result.
    """
    name, (result, *_) = step.operation.rstrip("_"), step.results
    if result.layout in SPARSE:
        return ""
    where = chosen(result)
    operands = [
        torch.as_tensor(it, dtype=result.dtype, device=result.device)
        for it in step.operands[: 2 if name in _SIGNS else 1]
        if isinstance(it, Tensor | int | float)
    ]
    known = name in (*_SIGNS, *_OF_ONE) and bool(operands)
    if result.is_complex() or not known or not bool(where.any()):
        return ""
    at = where.reshape(-1).nonzero()[0, 0]
    values = [float(it.expand(result.shape).reshape(-1)[at]) for it in operands]
    if any(map(math.isnan, values)):
        return "nan"  # from a saved tensor
    texts = [f"{value + 0.0:.4g}".replace("inf", "∞") for value in values]  # -0.0 becomes 0
    if name in _SIGNS:
        first, second = texts
        first = f"({first})" if name == "pow" and first[0] == "-" else first
        return f"{first} {_SIGNS[name]} {f'({second})' if second[0] == '-' else second}"
    return f"{name}({texts[0]})"


def _kept(value: Any) -> Any:
    small = isinstance(value, Tensor) and value.numel() <= MOST_NUMBERS
    return value.detach().clone() if small else value if isinstance(value, int | float) else None


def _has_nan(tensor: Tensor) -> bool:
    return is_float(tensor) and bool(_dense(tensor).isnan().any())


def _is_finite(tensor: Tensor) -> bool:
    return not is_float(tensor) or bool(_dense(tensor).isfinite().all())


def _dense(tensor: Tensor) -> Tensor:
    """Return the numbers of a sparse tensor, which lacks many operations, as a dense tensor."""
    return tensor.to_dense() if tensor.layout in SPARSE else tensor


def line_that_differs(plain: Callable[[], object], other: Callable[[], object]) -> str:
    """Return the first line at which two runs of the same code produce different results."""
    for first, second in _matched(_steps_of(plain), _steps_of(other)):
        if second.line and not _alike(first.results, second.results):
            return second.line
    return ""


def _steps_of(call: Callable[[], object]) -> Sequence[_Step]:
    with _Steps(keep_results=True) as seen:
        attempt(call)
    return seen.steps


def _matched(one: Sequence[_Step], other: Sequence[_Step]) -> Iterator[tuple[_Step, _Step]]:
    """Yield the operations that two runs have in common."""
    names = [[step.operation for step in steps] for steps in (one, other)]
    for block in SequenceMatcher(a=names[0], b=names[1], autojunk=False).get_matching_blocks():
        for k in range(block.size):
            yield one[block.a + k], other[block.b + k]


def _alike(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and (same_bytes(a, b) or _near(a, b))
        for a, b in zip(one, other, strict=True)
    )


def _near(one: Tensor, other: Tensor) -> bool:
    """Whether two results agree up to rounding.

    Rounding can differ, because the memory layout can change the order of additions.
    """
    if not (one.is_floating_point() or one.is_complex()) or one.dtype != other.dtype:
        return False
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True)


def _line() -> str:
    """Return the current line of user code, ignoring the lines that started the diagnosis."""
    frames = traceback.extract_stack()
    ours = [k for k, f in enumerate(frames) if f.filename == __file__ and f.name in _STARTS]
    return users_last(frames[ours[-1] :] if ours else frames)


_STARTS = (line_that_changes.__name__, _steps_of.__name__)
