"""Detect a ``forward`` that returns an inexact result because it is an iterative solver.

A solver that iterates to a tolerance returns an inexact result. ``backward`` returns the derivative
of the exact solution, but finite differences of ``forward`` give the derivative of the approximate
solution. The two derivatives agree only to a few digits, even though ``backward`` is correct.

Four signs reveal a solver:

1. One line repeatedly reads numbers from tensors to decide whether to continue.
2. ``backward`` is also a solver, so it is linear in ``grad_output`` only to a few digits.
3. The values of ``forward`` jump slightly at inputs where the solver needs one more iteration.
4. A line of Python runs more or less often for other inputs, as in a loop that stops at a
   tolerance. The loop may use NumPy arrays.

In the third case, a long finite-difference step averages over the jumps, so its slope agrees better
with the gradient than the slope of a short step. If it does not agree better, the jump is a
boundary between two formulas, and the gradient is incorrect.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.passes import both_ways
from autograd_doctor._execution.session import Run, Session
from autograd_doctor._inputs import varied
from autograd_doctor._numerics.closeness import resolution, size
from autograd_doctor._numerics.finite_differences import STEP, TINY, Keep, Values, copied, slopes
from autograd_doctor._numerics.projection import deviation
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.evidence import DOUBLE, RANDOM, Evidence
from autograd_doctor.memory import DispatchMode, operation_name

STEPS = (STEP, 1e-2, 1e-1)  # relative to each element; a long step averages over small jumps
CLOSE = 0.05  # relative to the gradient; an incorrect gradient usually has a larger error
CLOSER = 3  # a long step must reduce the deviation by this factor
LINES = 2
POINTS = 64  # number of points on a line from the example to another input
SUSPECTS = 3  # number of intervals per line that are searched for a jump
HALVINGS = 30
# size of a solver's jump: larger than float32 rounding, smaller than a quantizer's step
SMALLEST, LARGEST = 4e-7, 1e-2
ROUNDED = 3e-6  # larger than the rounding of several float32 operations
DIGITS = 1e-4  # relative resolution; 16-bit dtypes are coarser
READS = 3  # how often a line must read a number, or run, to indicate a loop
SMALLER = 1 / 128  # factor for the inputs; it makes a loop with an absolute tolerance end earlier
OTHERS = 4  # number of other inputs for which lines are counted


def inexact(
    session: Session, found: Evidence, values: Values, directions: torch.Generator, keep: Keep
) -> Evidence:
    """Record the relative error of the gradient if an inexact ``forward`` can explain it."""
    outputs = (out for out in found.forward.outputs if is_float(out) and bool(out.any()))
    if any(not out.is_complex() and resolution(out.double()) > DIGITS for out in outputs):
        return found  # at 16-bit precision, every function has jumps
    short, *long = (
        deviation(found, slopes(values, session.inputs, session.wanted, directions, keep, step))
        for step in STEPS
    )
    off = min(short, *long)
    if off > CLOSE:
        return found
    solves = _nearly_linear(found) or _reads_numbers(session) or _repeats(session, found, values)
    if not solves and not (min(long) < short / CLOSER and _jumps(session, found, values)):
        return found
    return replace(found, values=replace(found.values, inexact=off))


class _ReadNumbers(DispatchMode):
    """A mode that counts how often each source line reads a number from a tensor.

    It counts reads in the forward pass and the backward pass separately. Otherwise, a call such
    as ``one_hot``, which reads two numbers in each pass, would look like a loop.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stage = "forward"
        self.lines: Counter[tuple[str, str, int]] = Counter()

    def begin_backward(self, _run: Run) -> None:
        """Count all later reads as part of the backward pass."""
        self.stage = "backward"

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation. Count it if it reads a number from a tensor."""
        if operation_name(func) == "_local_scalar_dense":
            self.lines[self.stage, *_line()] += 1
        return func(*args, **(kwargs or {}))


def _line() -> tuple[str, int]:
    """Return the file and line number of the code that reads a number from a tensor."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _METHODS:
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)


_METHODS = (__name__, "torch._tensor", "torch.functional")


def _nearly_linear(found: Evidence) -> bool:
    """Return whether ``backward`` is approximately, but not exactly, linear in ``grad_output``."""
    pairs = zip(found.values.vjps[RANDOM].grads, found.values.vjps[DOUBLE].grads, strict=False)
    off = [
        size(twice - 2 * once) / size(twice)
        for once, twice in pairs
        if once is not None and twice is not None and size(twice) > 0
    ]
    return bool(off) and ROUNDED < max(off) < LARGEST


def _reads_numbers(session: Session) -> bool:
    with _ReadNumbers() as reading:
        both_ways(
            session,
            lambda outputs: [torch.ones_like(out) for out in outputs],
            between=reading.begin_backward,
        )
    return max(reading.lines.values(), default=0) >= READS


class _CountedLines:
    """A context manager that counts how often each line runs, except in PyTorch and the doctor."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[CodeType, int]] = Counter()

    def __enter__(self) -> Counter[tuple[CodeType, int]]:
        self._before = sys.gettrace()
        sys.settrace(self._on_call)
        return self.counts

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _on_call(self, frame: FrameType, _event: str, _arg: object) -> Any:
        module = str(frame.f_globals.get("__name__", ""))
        return None if module.startswith(_OURS) else self._on_line

    def _on_line(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            self.counts[frame.f_code, frame.f_lineno] += 1
        return self._on_line


_OURS = ("torch.", "autograd_doctor.")


def _repeats(session: Session, found: Evidence, values: Values) -> bool:
    """Return whether a loop in the code of ``forward`` ends earlier or later for other inputs.

    Ignore inputs for which the loop does not run at all, because a branch may skip a loop that has
    a fixed length.
    """
    rng = generator(session.seed, Stream.LINES)
    example = [v.requires_grad_() if i in found.wanted else v for i, v in _detached(found)]
    counts: list[Counter[tuple[CodeType, int]]] = []
    smaller = [v * SMALLER if i in found.wanted else v for i, v in enumerate(example)]
    for inputs in (example, smaller, *(varied(example, rng) for _ in range(OTHERS))):
        with _CountedLines() as counted, suppress(Exception):  # outside the domain of forward
            values(copied(inputs))
        counts.append(counted)
    often = {line for counted in counts for line, times in counted.items() if times >= READS}
    return any(len({counted[line] for counted in counts} - {0}) > 1 for line in often)


def _jumps(session: Session, found: Evidence, values: Values) -> bool:
    """Return whether ``forward`` has small jumps between the example and other inputs.

    Return false if ``forward`` is constant between its jumps, because then it is a quantizer, not a
    solver.
    """
    rng = generator(session.seed, Stream.LINES)
    example = [v.requires_grad_() if i in found.wanted else v for i, v in _detached(found)]
    for _ in range(LINES):
        other = varied(example, rng)

        def at(t: float, other: tuple[Any, ...] = other) -> Tensor:
            ends = zip(found.inputs, other, strict=True)
            moved = [a + t * (b.detach() - a) if is_float(a) else a for a, b in ends]
            return values(copied(moved))

        if torch.equal(at(0.0), at(TINY)):
            return False
        if SMALLEST < _largest_jump(at) < LARGEST:
            return True
    return False


def _detached(found: Evidence) -> list[tuple[int, Any]]:
    return [(i, v.detach() if isinstance(v, Tensor) else v) for i, v in enumerate(found.inputs)]


def _largest_jump(at: Callable[[float], Tensor]) -> float:
    """Return the largest jump of a function on [0, 1], relative to its largest value.

    To locate a jump, halve an interval repeatedly. The jump is the change across the last interval.
    """
    points = torch.stack([at(k / POINTS) for k in range(POINTS + 1)])
    if not bool(torch.isfinite(points).all()) or not points.numel():
        return 0.0
    size, largest = float(points.abs().max()), 0.0
    rises = points.diff(dim=0)
    bends = rises.diff(n=3, dim=0).abs().amax(1)
    places = bends.argsort(descending=True)[:SUSPECTS].tolist()
    for first, offset in product(places, range(1, 3)):
        place = first + offset
        low, high = place / POINTS, (place + 1) / POINTS
        left, right = points[place], points[place + 1]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            value = at(middle)
            if float((value - left).abs().max()) > float((right - value).abs().max()):
                high, right = middle, value
            else:
                low, left = middle, value
        largest = max(largest, float((right - left).abs().max()))
    return largest / size if size else 0.0
