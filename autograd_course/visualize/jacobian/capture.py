"""The Jacobian twice, in float64: as backward answers one-hot cotangents, and as forward has it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from autograd_doctor import DoctorError
from autograd_doctor._execution.calls import attempt, passes_within
from autograd_doctor._execution.captured_state import CapturedState
from autograd_doctor._execution.isolation import generator, preserve_global_state
from autograd_doctor._execution.operations import custom_nodes
from autograd_doctor._execution.session import Run, Session, Subject, subject_of
from autograd_doctor._inputs import in_double, wanted
from autograd_doctor._numerics.finite_differences import (
    MOST_COLUMNS,
    as_real,
    flat,
    jacobian,
)
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._probes.values import one_row
from autograd_doctor._report.jacobians import Jacobians, axis, disagreement, jacobians
from autograd_doctor.evidence import Failure
from autograd_course.visualize.kit.asking import require_dense, require_values
from autograd_course.visualize.kit.errors import TraceError

MOST = 512  # elements of an input or an output: every one costs a pass
_SECONDS = 30.0  # that all passes of one kind may take
_SEED = 0
T = TypeVar("T")


@dataclass(frozen=True)
class Captured:
    """The Jacobians, and whether a custom Function stands in the graph they come from."""

    pairs: tuple[Jacobians, ...]
    custom: bool


def capture(
    fn: Any, inputs: Sequence[Any], of: int | None, reference: Callable[..., Any] | None
) -> Captured:
    """Return both Jacobians of each output with respect to each input that is differentiated.

    A row of ``backward`` is what one backward pass returns for a one-hot ``grad_output``. A column
    of ``differences`` comes from central differences of forward; of a ``reference``, it is its own
    autograd's. All is done on float64 copies; the caller's world is left as it was.

    Raises :class:`TraceError` where forward or backward raises, or the Jacobian is too large.
    """
    with _in_one_sentence():
        session = _session(fn, inputs)
        with preserve_global_state(_SEED), session.subject.around.lent(), passes_within(_SECONDS):
            run = _first_run(session)
            known = None if reference is None else _run(_session(reference, inputs))
            pairs = tuple(_pairs(session, run, known, _chosen(run, of)))
            return Captured(pairs, custom=any(custom_nodes(run.floats)))


def _session(fn: Any, inputs: Sequence[Any]) -> Session:
    if isinstance(fn, Tensor) or not callable(fn):
        raise TraceError(
            "jacobian_view needs a function to run as its first argument, not "
            f"a {type(fn).__name__}; write jacobian_view(fn, x) rather than jacobian_view(fn(x))."
        )
    require_values(inputs)
    require_dense(inputs)
    subject = subject_of(fn, len(inputs))
    around = CapturedState((subject.name, subject.function or subject.call))
    subject = replace(subject, around=around, passed=around.passed(inputs))
    places, values = wanted(inputs), [in_double(value) for value in inputs]
    for place in places:
        _require_size(as_real(values[place]).numel(), subject.parameters[place])
    return Session(subject, values, places, _SEED)


def _first_run(session: Session) -> Run:
    """Run forward, with what it reaches in float64 if that works, else as it is."""
    try:
        return _run(session)
    except TraceError:
        if not session.subject.around.held:
            raise
        session.subject.around.precise = False
        return _run(session)


def _run(session: Session) -> Run:
    run = _done(session.run, session.subject, "forward")
    if not run.floats:
        raise TraceError(
            f"{session.subject.name} returns no floating-point tensor, so there is no Jacobian; "
            "return the tensor that is differentiated."
        )
    for k, out in enumerate(run.floats):
        _require_size(as_real(out).numel(), f"output {k} of {session.subject.name}")
    return run


def _require_size(count: int, what: str) -> None:
    if count > MOST:
        raise TraceError(
            f"{what} has {count:,} elements, and each costs a pass; jacobian_view shows up to "
            f"{MOST}: pass a smaller example, the pattern is the same."
        )
    if not count:
        raise TraceError(f"{what} is empty, so its Jacobian is too; pass an example with elements.")


def _chosen(run: Run, of: int | None) -> Sequence[int]:
    places = range(len(run.floats))
    if of is None:
        return places
    if isinstance(of, bool) or not isinstance(of, int) or of not in places:
        raise TraceError(
            f"of={of!r} names no output; {len(places)} can carry a gradient, counted from 0."
        )
    return [of]


def _pairs(
    session: Session, run: Run, known: Run | None, outputs: Sequence[int]
) -> Iterator[Jacobians]:
    answers = _rows(run, session.subject)
    expected = None if known is None else _rows(known, session.subject)
    starts = [0]
    for out in run.floats:
        starts.append(starts[-1] + as_real(out).numel())
    for slot, place in enumerate(session.wanted):
        value, backward = session.inputs[place], answers[slot]
        if expected is None:
            differences, error = _by_differences(session, place)
        elif expected[slot].shape == backward.shape:
            differences, error = expected[slot], torch.zeros_like(backward)
        else:
            raise TraceError("The reference returns other shapes than the function it is for.")
        columns = axis(session.subject.parameters[place], value, torch.arange(backward.shape[1]))
        for k in outputs:
            here, name = slice(starts[k], starts[k + 1]), f"output {k}"
            rows = axis(
                name if len(run.floats) > 1 else "output",
                run.floats[k],
                torch.arange(here.stop - here.start),
            )
            off = disagreement(backward[here], differences[here], error[here])
            whole = (len(rows.places), len(columns.places))
            yield jacobians(rows, columns, whole, differences[here], backward[here], off)


def _rows(run: Run, subject: Subject) -> tuple[Tensor, ...]:
    """Return backward's answers to one-hot cotangents: for each leaf a row for each output."""
    count = sum(as_real(out).numel() for out in run.floats)
    found = _done(lambda: [one_row(run, i) for i in range(count)], subject, "backward")
    return tuple(torch.stack(rows).cpu() for rows in zip(*found, strict=True))


def _by_differences(session: Session, place: int) -> tuple[Tensor, Tensor]:
    """Return the Jacobian of all outputs by one input, NaN at kinks, and its estimated error."""
    whole, found = session.inputs[place], []
    count = as_real(whole).numel()
    for start in range(0, count, MOST_COLUMNS):
        part = slice(start, min(start + MOST_COLUMNS, count))

        def values(given: Sequence[Any], part: slice = part) -> Tensor:
            args = [v.clone() if isinstance(v, Tensor) else v for v in session.inputs]
            as_real(args[place]).view(-1)[part] = given[0]
            with torch.no_grad():
                return flat([out for out in session.call(args, watched=False) if is_float(out)])

        def columns(part: slice = part, values: Any = values) -> Any:
            piece = as_real(whole).reshape(-1)[part]
            (piece_columns,) = jacobian(values, [piece], [0], generator(_SEED))
            return piece_columns

        found.append(_done(columns, session.subject, "forward"))
    smooth = torch.cat([columns.smooth for columns in found])
    matrix = torch.cat([columns.matrix.cpu() for columns in found], 1)
    error = torch.cat([columns.error.cpu() for columns in found], 1)
    return torch.where(smooth, matrix, torch.nan), error


def _done(call: Callable[[], T], subject: Subject, what: str) -> T:
    """Return what a call of the user's code returns; where it raises, say so."""
    result = attempt(call)
    if isinstance(result, Failure):
        first = (result.text.splitlines() or [""])[0].rstrip(".")
        raise TraceError(f"The {what} of {subject.name} raised {result.kind}: {first}.")
    return result


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    try:
        yield
    except DoctorError as error:
        raise TraceError(f"The Jacobian cannot be built: {error}") from None
