"""Running a Function at every place of x's range, before anybody drags."""

import io
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from itertools import pairwise

from autograd_doctor.extension import preserve_global_state

from autograd_course.visualize.functionlab.differences import sides
from autograd_course.visualize.functionlab.listing import Listing, listing
from autograd_course.visualize.functionlab.run import StoppedError, functions_inside, run, value
from autograd_course.visualize.functionlab.subject import GRAD_OUTPUT, Subject
from autograd_course.visualize.functionlab.tangent import Tangent
from autograd_course.visualize.functionlab.trace import Position, Run, Sides, Sweep, Verdict
from autograd_course.visualize.kit.slider import positions

_FINE = 4  # points of the curve between two positions
_MANY = 100  # positions, at most
_SLOW, _FEW = 0.02, 24  # seconds a run of CPU time from which on there are only a few positions
_HALVINGS = 30  # to tell a jump of the curve from a steep rise

Curve = tuple[tuple[float, float | None], ...]


def shown(subject: Subject) -> Listing:
    """Return the source to show beside a subject's curve.

    Raises :class:`TraceError` where the subject cannot be run where it begins.
    """
    with _alone():
        return listing(subject.fn, functions_inside(subject, subject.values()))


def sweep(subject: Subject, x: float, values: Mapping[str, float], source: Listing) -> Sweep:
    """Run forward and backward over the range of x, x itself among the places.

    At each place forward runs twice more, a little to the left and to the right.
    """
    low, high = subject.range(subject.names[0])
    at = {name: v for name, v in values.items() if name != GRAD_OUTPUT}
    grad_output = values[GRAD_OUTPUT]
    with _alone():
        once = partial(_run, subject, x, at, grad_output, source)
        slow = min(_seconds(once), _seconds(once)) > _SLOW  # the first one may load things
        places = positions(min(low, x), max(high, x), x, _FEW if slow else _MANY)
        found = tuple(_position(subject, place, at, grad_output, source) for place in places)

        def forward(place: float) -> float:
            try:
                return value(subject, place, at)
            except Exception:
                return math.nan

        curve = _curve(forward, places, 1 if slow else _FINE)
    told = tuple(_surrogates(found))
    return Sweep(subject.name, subject.names[0], grad_output, tuple(at.items()), told, curve)


@contextmanager
def _alone() -> Iterator[None]:
    with preserve_global_state(0), redirect_stdout(io.StringIO()):
        yield


def _seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _run(
    subject: Subject, x: float, at: Mapping[str, float], grad_output: float, source: Listing
) -> Run | StoppedError:
    try:
        return run(subject, x, at, grad_output, source)
    except StoppedError as stopped:
        return stopped


def _position(
    subject: Subject, x: float, at: Mapping[str, float], grad_output: float, source: Listing
) -> Position:
    found = _run(subject, x, at, grad_output, source)
    if isinstance(found, StoppedError):
        return Position(x, None, None, None, "open", str(found), found.steps)
    try:
        both = sides(lambda place: value(subject, place, at), x)
    except Exception:  # at the border of where forward is defined
        both = None
    if found.failure:
        return Position(x, found, both, None, "open", found.failure)
    slope = (found.gradient or 0.0) / grad_output if grad_output else None
    return Position(x, found, both, slope, _verdict(found, slope, both))


def _verdict(found: Run, slope: float | None, both: Sides | None) -> Verdict:
    if slope is None:  # nothing comes in: nothing may go out
        return "agree" if not found.gradient else "differ"
    if both is None:
        return "open"
    if both.shape != "smooth":
        return both.shape
    compared = Tangent("", 0.0, found.y, slope, both.left, both.right, ()).verdict
    return "differ" if compared == "disagree" else "kink" if compared == "kink" else "agree"


def _surrogates(found: tuple[Position, ...]) -> Iterator[Position]:
    """Tell a backward that may be meant as a surrogate from a wrong one.

    It may where forward has no other slope than 0 in the whole range: no derivative can be meant.
    """
    sloped = [place for place in found if place.verdict in ("agree", "differ", "kink")]
    staircase = bool(sloped) and all(place.flat for place in sloped)
    for place in found:
        meant = staircase and place.verdict == "differ" and place.slope is not None
        yield replace(place, verdict="surrogate") if meant else place


def _curve(f: Callable[[float], float], places: list[float], fine: int) -> Curve:
    """Return the graph on a finer grid; where forward is no number, or jumps, y is ``None``."""
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
    """Return the ends of a jump between two places and nothing between them, or an empty list."""
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
