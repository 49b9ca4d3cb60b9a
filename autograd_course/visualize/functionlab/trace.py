"""The data of the Function lab, recorded in real runs at many values of x."""

import io
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor
from torch.autograd import Function

from autograd_course.engine import run_backward
from autograd_course.visualize.functionlab.lines import Lines, Listing, Step, listing, written
from autograd_course.visualize.functionlab.subject import GRAD_OUTPUT, Subject
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import raised, size
from autograd_course.visualize.kit.graph import in_forward_order, is_custom
from autograd_course.visualize.kit.slider import positions

# The behavior of forward near a point: it has a slope, jumps, or is infinitely steep.
Shape = Literal["smooth", "jump", "steep"]
KINK = 1e-2  # relative; the one-sided slopes of a smooth function differ by much less
TOLERANCE = 1e-4  # relative; in float64, a central difference has an error of about 1e-10
Verdict = Literal["agree", "differ", "surrogate", "kink", "jump", "steep", "open"]


@dataclass(frozen=True)
class Kept:
    """A value that ctx stores for backward: its name on ctx, its role, and its value as text."""

    name: str
    what: str
    text: str


@dataclass(frozen=True)
class Run:
    """One forward and one backward pass.

    ``gradient`` is ∂L/∂x, or ``None`` if x received no gradient. ``returned`` is the result of
    backward, as text. If backward raised an exception, ``failure`` describes it in one sentence.
    """

    y: float
    gradient: float | None
    returned: str
    kept: tuple[Kept, ...]
    steps: tuple[Step, ...]
    failure: str = ""


@dataclass(frozen=True)
class Stopped:
    """A forward pass that raised an error: the reason, and the lines that ran."""

    failure: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Sides:
    """The slopes of forward on the left and on the right of x, from finite differences."""

    left: float
    right: float
    shape: Shape = "smooth"

    @property
    def central(self) -> float:
        """The slope from central differences, which is the mean of the one-sided slopes."""
        return (self.left + self.right) / 2

    @property
    def bent(self) -> bool:
        """Whether the two slopes differ more than they would for a smooth function."""
        return abs(self.right - self.left) > KINK * max(1.0, abs(self.left), abs(self.right))


@dataclass(frozen=True)
class Position:
    """A value of x: the run, the slopes of forward, and the verdict.

    ``run`` is ``None`` if forward raised an error. In this case, ``failure`` gives the reason, and
    ``stopped`` contains the lines that ran. ``sides`` is ``None`` unless forward is finite on both
    sides. ``slope`` is ``gradient / grad_output``. The verdict ``surrogate`` means that forward is
    a step function and backward differs from the derivative of forward. This derivative is 0, so
    every nonzero surrogate gradient differs from it.
    """

    x: float
    run: Run | None
    sides: Sides | None
    slope: float | None
    verdict: Verdict
    failure: str = ""
    stopped: tuple[Step, ...] = ()

    @property
    def flat(self) -> bool:
        """Whether forward has slope 0 on both sides."""
        return self.sides is not None and self.sides.left == self.sides.right == 0

    @property
    def steps(self) -> tuple[Step, ...]:
        """The lines that ran. If a line raised an error, it is the last one."""
        return self.run.steps if self.run else self.stopped


@dataclass(frozen=True)
class Sweep:
    """A Function over a range of x, with fixed parameters and one ``grad_output``.

    ``variable`` is the name of x in forward. ``curve`` contains the values of forward on a finer
    grid. y is ``None`` where forward raises an error or jumps.
    """

    name: str
    variable: str
    grad_output: float
    parameters: tuple[tuple[str, float], ...]
    positions: tuple[Position, ...]
    curve: tuple[tuple[float, float | None], ...]

    def at(self, x: float) -> int:
        """Return the index of the position nearest to x."""
        places = range(len(self.positions))
        return min(places, key=lambda index: abs(self.positions[index].x - x))


# --------------------------------------------------------------------------------------------------
# The whole range of x, computed before the reader drags x.
# --------------------------------------------------------------------------------------------------

_FINE = 4  # the number of points on the curve between two positions
_MANY = 100  # the maximum number of positions
_SLOW, _FEW = 0.02, 24  # CPU seconds per run; a slower run gets only a few positions
_HALVINGS = 30  # enough to distinguish a jump in the curve from a steep rise
Curve = tuple[tuple[float, float | None], ...]


def listing_of(subject: Subject) -> Listing:
    """Return the source code to show next to the curve.

    Raises :class:`TraceError` if the function raises an error at the first x.
    """
    with _alone():
        return listing(subject.fn, _functions_inside(subject, subject.values()))


def sweep(subject: Subject, x: float, values: Mapping[str, float], source: Listing) -> Sweep:
    """Run forward and backward at many values of x, including the current one.

    At each value, forward also runs slightly to the left and slightly to the right.
    """
    low, high = subject.range(subject.names[0])
    at = {name: v for name, v in values.items() if name != GRAD_OUTPUT}
    grad_output = values[GRAD_OUTPUT]
    with _alone():
        once = partial(run, subject, x, at, grad_output, source)
        slow = min(_seconds(once), _seconds(once)) > _SLOW  # the first run may load libraries
        places = positions(min(low, x), max(high, x), x, _FEW if slow else _MANY)
        found = tuple(_position(subject, place, at, grad_output, source) for place in places)

        def forward(place: float) -> float:
            try:
                return _value(subject, place, at)
            except Exception:
                return math.nan

        curve = _curve(forward, places, 1 if slow else _FINE)
    positions_found = tuple(_with_surrogates(found))
    return Sweep(
        subject.name, subject.names[0], grad_output, tuple(at.items()), positions_found, curve
    )


@contextmanager
def _alone() -> Iterator[None]:
    with preserve_global_state(0), redirect_stdout(io.StringIO()):
        yield


def _seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _position(
    subject: Subject, x: float, at: Mapping[str, float], grad_output: float, source: Listing
) -> Position:
    found = run(subject, x, at, grad_output, source)
    if isinstance(found, Stopped):
        return Position(x, None, None, None, "open", found.failure, found.steps)
    try:
        both = sides_at(lambda place: _value(subject, place, at), x)
    except Exception:  # at the edge of forward's domain
        both = None
    if found.failure:
        return Position(x, found, both, None, "open", found.failure)
    slope = (found.gradient or 0.0) / grad_output if grad_output else None
    return Position(x, found, both, slope, _verdict(found, slope, both))


def _verdict(found: Run, slope: float | None, both: Sides | None) -> Verdict:
    if slope is None:  # grad_output is 0, so the gradient must be 0
        return "agree" if not found.gradient else "differ"
    if both is None:
        return "open"
    if both.shape != "smooth":
        return both.shape
    return compare_slopes(slope, both.left, both.right)


def compare_slopes(
    backward: float, left: float, right: float
) -> Literal["agree", "differ", "kink"]:
    """Compare the slope from backward with the one-sided slopes of forward.

    At a kink, the result is ``differ`` if the slope from backward is not between the one-sided
    slopes, and ``kink`` otherwise.
    """
    scale = max(1.0, abs(left), abs(right))
    low, high = sorted((left, right))
    if high - low > KINK * scale:
        return "kink" if low - KINK <= backward <= high + KINK else "differ"
    return "agree" if abs(backward - (left + right) / 2) <= TOLERANCE * scale else "differ"


def _with_surrogates(found: tuple[Position, ...]) -> Iterator[Position]:
    """Distinguish a backward that may be an intended surrogate from a wrong one.

    A backward counts as a possible surrogate if the slope of forward is 0 in the whole range,
    because the true derivative is then useless.
    """
    sloped = [place for place in found if place.verdict in ("agree", "differ", "kink")]
    staircase = bool(sloped) and all(place.flat for place in sloped)
    for place in found:
        meant = staircase and place.verdict == "differ" and place.slope is not None
        yield replace(place, verdict="surrogate") if meant else place


def _curve(f: Callable[[float], float], places: list[float], fine: int) -> Curve:
    """Return points of the curve on a finer grid. y is ``None`` where forward jumps or is NaN."""
    pairs = pairwise(places)
    xs = [a + (b - a) * k / fine for a, b in pairs for k in range(fine)] + places[-1:]
    ys = [f(x) for x in xs]
    finite = [y for y in ys if math.isfinite(y)]
    large = 0.02 * (max(finite) - min(finite)) if finite else 0.0
    points: list[tuple[float, float | None]] = []
    for k, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if k and abs(y - ys[k - 1]) > large and (gap := _jump(f, xs[k - 1], x)):
            points += gap
        points.append((x, y if math.isfinite(y) else None))
    return tuple(points)


def _jump(f: Callable[[float], float], low: float, high: float) -> list[tuple[float, float | None]]:
    """Return both ends of a jump between two points, or an empty list if there is none."""
    before, after = f(low), f(high)
    whole = abs(after - before)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        here = f(middle)
        if abs(here - before) > abs(after - here):
            high, after = middle, here
        else:
            low, before = middle, here
    if not abs(after - before) > whole / 2:
        return []
    return [(low, before), (low, None), (high, after)]


# --------------------------------------------------------------------------------------------------
# One forward and one backward pass at one point.
# --------------------------------------------------------------------------------------------------

_SCALAR = (
    "; x is a scalar of shape (). If your function needs another shape, pass a callable that "
    "creates it, such as {}."
)


def run(
    subject: Subject, x: float, values: Mapping[str, float], grad_output: float, shown: Listing
) -> Run | Stopped:
    """Run forward and backward once, on new float64 tensors.

    The result is :class:`Stopped` if forward raises an error or does not return one number. If
    backward raises an error, ``Run.failure`` contains the message.
    """
    inputs = subject.inputs(x, values, graph=True)
    lines = Lines(shown)
    try:
        with lines.watching():
            y = _forward(subject, inputs)
    except TraceError as error:
        return Stopped(str(error), tuple(lines.steps))
    nodes = _custom_nodes(y)
    kept = tuple(kept for node in nodes for kept in _kept_by(node, y, inputs, subject.names))
    seed = torch.full_like(y, grad_output)
    gradient, failure = None, ""
    try:
        with _in_engine(nodes, lines), lines.watching():
            (gradient,) = run_backward([y], [seed], inputs[:1])
    except Exception as error:
        failure = f"The backward of {subject.name} raised {raised(error)}."
    return Run(
        y=y.item(),
        gradient=None if gradient is None else gradient.item(),
        returned=lines.returned or ("None" if gradient is None else written(gradient)),
        kept=kept,
        steps=tuple(lines.steps),
        failure=failure,
    )


def _functions_inside(subject: Subject, values: Mapping[str, float]) -> tuple[type[Function], ...]:
    """Return the custom Functions that run in a call, in order and without duplicates.

    Raises :class:`TraceError` if forward raises an error or does not return one number.
    """
    inputs = subject.inputs(subject.x, values, graph=True)
    try:
        y = _forward(subject, inputs)
    except TraceError as error:
        if error.__cause__ is None:
            raise
        raise TraceError(
            f"{str(error)[:-1]}{_SCALAR.format(subject.on_three)}"
        ) from error.__cause__
    return tuple(dict.fromkeys(node._forward_cls for node in _custom_nodes(y)))


def _custom_nodes(y: Tensor) -> list[Any]:
    return [node for node in in_forward_order([y.grad_fn], []) if is_custom(node)]


def _forward(subject: Subject, inputs: list[Any]) -> Tensor:
    try:
        with preserve_global_state(0):
            y = subject.call(inputs)
    except Exception as error:
        raise TraceError(f"{subject.name} raised {raised(error)}.") from error
    if not isinstance(y, Tensor) or y.numel() != 1 or y.is_complex():
        raise TraceError(
            f"function_lab plots one number against another, but {subject.name} returned "
            f"{_what(y)}; pass a callable that returns one number for a scalar x, such as "
            f"{subject.on_three}."
        )
    if y.grad_fn is None:
        raise TraceError(
            f"Autograd does not connect the output of {subject.name} to x; check whether "
            "detach(), no_grad(), .item() or a conversion to integers cuts the graph."
        )
    return y


def _what(y: Any) -> str:
    if isinstance(y, tuple):
        return f"{len(y)} outputs"
    if isinstance(y, Tensor):
        return "a complex number" if y.is_complex() else f"a tensor of shape {tuple(y.shape)}"
    return f"an object of type {type(y).__name__}"


@contextmanager
def _in_engine(nodes: list[Any], lines: Lines) -> Iterator[None]:
    """Also record lines in the autograd engine's threads, where backward runs on a GPU."""
    begun: list[bool] = []

    def start(_: Any) -> None:
        begun.append(lines.begin())

    def stop(*_: Any) -> None:
        if begun and begun.pop():
            lines.end()

    handles = [node.register_prehook(start) for node in nodes]
    handles += [node.register_hook(stop) for node in nodes]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _value(subject: Subject, x: float, values: Mapping[str, float]) -> float:
    """Run forward without backward, and return its value."""
    with preserve_global_state(0), torch.no_grad():
        result = subject.call(subject.inputs(x, values, graph=False))
    return float(result.item())


def _kept_by(node: Any, y: Tensor, inputs: Sequence[Any], names: Sequence[str]) -> Iterator[Kept]:
    """Yield everything that a custom Function's ctx stores: saved tensors first, then attributes.

    The memory address of a saved tensor shows whether it is an input, an output or neither.
    """
    pairs = zip(inputs, names, strict=True)
    known = {x.data_ptr(): f"the input {name}" for x, name in pairs if isinstance(x, Tensor)}
    known[y.data_ptr()] = "the output"
    try:
        saved = [tensor for tensor in node.saved_tensors if tensor is not None]
    except RuntimeError as error:  # changed in place since it was saved
        saved = []
        yield Kept("saved tensors", "unusable", str(error).split(":")[0])
    for index, tensor in enumerate(saved):
        what = known.get(tensor.data_ptr(), "an intermediate result")
        about = f"{str(tensor.dtype).removeprefix('torch.')}, {size(tensor.nbytes)}"
        yield Kept(f"saved tensor {index}", f"{what}, {about}", written(tensor))
    for name, attribute in vars(node).items():
        yield Kept(f"ctx.{name}", "attribute", written(attribute))


# --------------------------------------------------------------------------------------------------
# The slopes of forward, and the reasons why a slope can grow as the step shrinks.
# --------------------------------------------------------------------------------------------------

STEP = 1e-5  # relative to max(1, |x|)
_FINER = 16.0  # the ratio of the first step to the second step
_STEEP = 30.0  # slopes that are steeper than this are measured with both steps
_GROWS, _JUMPS = 1.5, 12.0  # growth of the slope: less than _FINER, or about _FINER


def sides_at(f: Callable[[float], float], x: float) -> Sides | None:
    """Return the one-sided slopes at x, or ``None`` if one of them is not finite.

    If forward is smooth, a slope does not depend on the step. Across a jump, it grows like 1/step.
    If the tangent is vertical, as for a square root at 0, the slope grows more slowly.
    """
    step = STEP * max(1.0, abs(x))
    left, right = one_sided_slopes(f, x, step)
    if not (math.isfinite(left) and math.isfinite(right)):
        return None
    steepest = max(abs(left), abs(right))
    if steepest < _STEEP:
        return Sides(left, right)
    growth = max(map(abs, one_sided_slopes(f, x, step / _FINER))) / steepest
    shape: Shape = "jump" if growth > _JUMPS else "steep" if growth > _GROWS else "smooth"
    return Sides(left, right, shape)


def one_sided_slopes(f: Callable[[float], float], x: float, step: float) -> tuple[float, float]:
    """Return the slopes of f on the left and on the right of x, from finite differences."""
    before, here, after = f(x - step), f(x), f(x + step)
    return (here - before) / step, (after - here) / step
