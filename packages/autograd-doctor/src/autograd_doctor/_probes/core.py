"""Run a Function on one set of inputs and collect evidence, without judging it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, fresh
from autograd_doctor._execution.dtypes import in_own_dtypes, variants
from autograd_doctor._execution.forward import forward_pass
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.lines import line_that_differs
from autograd_doctor._execution.passes import backward_pass, direct_call, sample_cotangents
from autograd_doctor._execution.session import Session, Subject, with_right_arity
from autograd_doctor._inputs import all_in_double, in_double, wanted
from autograd_doctor._numerics.bisection import bisect_columns
from autograd_doctor._numerics.closeness import same
from autograd_doctor._numerics.finite_differences import (
    MOST_COLUMNS,
    Keep,
    Values,
    as_real,
    copied,
    flat,
    jacobian,
    slopes,
    with_ties,
)
from autograd_doctor._numerics.projection import deviation, projections_agree
from autograd_doctor._numerics.structure import Structure, another, structure_of
from autograd_doctor._numerics.tensors import is_float, on_cpu
from autograd_doctor._probes import Probe
from autograd_doctor._probes.accuracy import STEPS, inexact
from autograd_doctor._probes.comparison import output_names
from autograd_doctor._probes.linear_range import ANY, Range, drawn_from, linear_range
from autograd_doctor._probes.second_order import require_second_order
from autograd_doctor.evidence import (
    DOUBLE,
    LARGE,
    LARGE_FACTOR,
    NEGATIVE,
    ONES,
    OTHER,
    RANDOM,
    SUM,
    ZERO,
    Comparison,
    Contract,
    Cotangent,
    Evidence,
    Failure,
    VjpResult,
)

Cotangents = tuple[Tensor | None, ...]
FAR_INPUTS = 3  # number of other values to try before concluding that an input does not matter
# factors for more values to try if the first values change nothing and all slopes are zero
FAR_FACTORS = (-1.0, 30.0, -30.0)


def choose_precision(subject: Subject, args: Sequence[Any], seed: int) -> Subject:
    """Decide whether to convert the subject's state, such as parameters, to float64.

    The state keeps its own dtypes only if ``forward`` fails in float64 but works with these dtypes.
    """
    lower = replace(subject, in_float64=False)

    def fails(each: Subject) -> bool:
        session = Session(each, all_in_double(args), wanted(args), seed)
        return forward_pass(session).failure is not None

    needs_lower = subject.around.held and fails(subject) and not fails(lower)
    return lower if needs_lower else subject


def probe(
    subject: Subject,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    seed: int,
    further: Sequence[Probe] = (),
    *,
    own_dtypes: Sequence[torch.dtype | None] = (),
    intentional: Collection[str] = (),
    in_other_dtypes: bool = True,
    differences: bool = True,
) -> Evidence:
    """Run the subject on float64 inputs and collect evidence.

    Stop early if further evidence would be meaningless.

    ``intentional`` holds the rules that the subject breaks by design. If such a rule is about
    linearity, the cotangents come from a range in which ``backward`` is still linear. If
    ``differences`` is false, do not compute the Jacobian. The rules then judge a gradient only if
    the slopes of ``forward`` along random directions confirm it.
    """
    session = Session(subject, inputs, wanted, seed, own_dtypes)
    rng = generator(seed)
    found = _after_forward(session)
    if in_other_dtypes or found.forward.failure:
        found = in_own_dtypes(session, found)
    outputs = [output for output in found.forward.outputs if is_float(output)]
    if found.forward.failure or not outputs:
        return found
    values = _values(session, flat(outputs))
    graded = _values(session, flat(outputs), in_grad_mode=True)
    plain, seconds = _timed(values, session.inputs)
    if seconds > SLOW:  # perhaps only because the machine was busy
        seconds = min(seconds, _timed(values, session.inputs)[1])
    differing = _without_grad(found, plain, graded)
    if differing:
        there = copied(session.inputs)
        line = line_that_differs(session.run, lambda: values(there))
        differing = replace(differing, line=line)
        found = replace(found, variants=replace(found.variants, comparisons=(differing,)))
        values = graded
    directions = generator(seed, Stream.DIRECTIONS)
    found = replace(
        found,
        values=replace(
            found.values, slopes=slopes(values, session.inputs, session.wanted, directions)
        ),
    )
    if not any(found.forward.requires_grad):
        return found
    one, two = sample_cotangents(outputs, rng), sample_cotangents(outputs, rng)
    linear = linear_range(session, found, one, two, intentional)
    found = replace(
        found, values=replace(found.values, cotangent_range=linear.words if linear else None)
    )
    began = _moment()
    found = _after_backward(session, found, linear or ANY, one, two, in_other_dtypes)
    took = _seconds_since(began)
    if rejected := _rejected(found):
        direct = found.contract.direct
        session = Session(with_right_arity(subject), inputs, wanted, seed, own_dtypes)
        found = _after_backward(session, found, linear or ANY, one, two, in_other_dtypes=False)
        found = replace(found, contract=replace(found.contract, direct=direct, rejected=rejected))
    if not found.values.vjps:
        return found
    if differences and not projections_agree(found):
        found = _along_structures(session, found, values)
    if differences and not (projections_agree(found) or found.values.inexact):
        most = _columns_in_time(seconds, len(session.wanted))
        columns = jacobian(values, session.inputs, session.wanted, rng, most)
        columns, tied = with_ties(values, session.inputs, session.wanted, columns)
        found = replace(found, values=replace(found.values, jacobian=columns, ties=tied))
        found = bisect_columns(values, session.inputs, session.wanted, found)
        found = replace(
            found, values=replace(found.values, piecewise=tuple(_piecewise(session, found, values)))
        )
    if found.values.vjps[RANDOM].failure:
        return found
    slow = seconds > SLOW
    if not slow and took > SLOW * len(found.values.vjps):  # was only the first call slow?
        slow = _seconds_of_backward(session, one) > SLOW
    return _looked_further(session, found, further, slow=slow)


# --------------------------------------------------------------------------------------------------
# Limit the time: if one pass is slow, only some probes run.
# --------------------------------------------------------------------------------------------------

PATIENCE = 20.0  # largest ratio of wall-clock time to CPU time on a busy machine
SLOW = 5e-3  # seconds; if a pass takes less time, all probes run
FURTHER_SECONDS = 2.0  # time limit for all further probes, if the subject is slow
COLUMN_SECONDS = 1.0  # time limit for the Jacobian's columns, if the subject is slow
FEWEST_COLUMNS = 4  # for each input


def _timed(values: Values, inputs: Sequence[Any]) -> tuple[Tensor, float]:
    """Return the values of ``forward``, and the time in seconds that the call took."""
    inputs = copied(inputs)
    began = _moment()
    return values(inputs), _seconds_since(began)


def _moment() -> tuple[float, float]:
    """Return the CPU time of this thread and the wall-clock time."""
    return time.thread_time(), time.perf_counter()


def _seconds_since(moment: tuple[float, float]) -> float:
    """Return the CPU time in seconds that this thread has used since ``moment``.

    The result does not use wall-clock time directly, because a busy machine would make the code
    look slow and change the verdict. If the code waits, for example for a GPU, the result is a
    fraction of the wall-clock time.
    """
    computed, passed = (now - then for now, then in zip(_moment(), moment, strict=True))
    return max(computed, passed / PATIENCE)


def _seconds_of_backward(session: Session, grad_outputs: Cotangents) -> float:
    """Run forward and backward twice. Return the shorter time in seconds."""
    times = []
    for _ in range(2):
        began = _moment()
        backward_pass(session, grad_outputs)
        times.append(_seconds_since(began))
    return min(times)


def _columns_in_time(seconds: float, inputs: int) -> int:
    """Return how many Jacobian columns per input can be computed within the time limit."""
    if seconds <= SLOW:
        return MOST_COLUMNS
    return max(FEWEST_COLUMNS, min(MOST_COLUMNS, int(COLUMN_SECONDS / (4 * seconds * inputs))))


def _looked_further(
    session: Session, found: Evidence, further: Sequence[Probe], *, slow: bool
) -> Evidence:
    """Run further probes.

    If the subject is slow and the time limit is exceeded, run only the required probes.
    """
    began, left_out = _moment(), []
    for look in further:
        late = slow and _seconds_since(began) > FURTHER_SECONDS
        if late and look is not require_second_order:
            left_out.append(look.__name__)
        else:
            found = look(session, found)
    on_the_cpu = session.on_cpu()
    needs_device = on_the_cpu is not session and isinstance(attempt(on_the_cpu.run), Failure)
    return replace(found, left_out=tuple(left_out), needs_device=needs_device)


def _along_structures(session: Session, found: Evidence, values: Values) -> Evidence:
    """Measure slopes along directions that preserve the structure of each input.

    For example, a symmetric input stays symmetric. If the gradient agrees with these slopes, they
    replace the slopes in the evidence. If the gradient does not agree, check whether ``forward`` is
    an inexact solver.
    """
    structures = {i: structure_of(session.inputs[i]) for i in session.wanted}
    keep = _keeping(session, structures)
    rng = generator(session.seed, Stream.STRUCTURES)
    words = {found.name(i): s.words for i, s in structures.items() if s is not None}
    if words:
        along = slopes(values, session.inputs, session.wanted, rng, keep)
        kept = replace(found, values=replace(found.values, slopes=along, structures=words))
        if projections_agree(kept):
            unread = tuple(
                found.name(i)
                for i, structure in structures.items()
                if structure is not None and _reads_no_more(session, i, structure, values)
            )
            return replace(kept, values=replace(kept.values, unread=unread))
    return inexact(session, found, values, rng, keep)


def _reads_no_more(session: Session, position: int, structure: Structure, values: Values) -> bool:
    """Return whether ``forward`` reads only the free elements of a matrix and the rest are 0.

    A structure leaves some elements free, such as those in the lower triangle of a triangular
    matrix.
    """
    value = session.inputs[position]
    free = structure.tangent(torch.ones_like(value)) != 0
    if not structure.is_matrix or bool(free.all()) or bool(value[~free].any()):
        return False
    inputs = copied(session.inputs)
    inputs[position] = torch.where(free, value, value.abs().max())
    return bool((values(inputs) == values(copied(session.inputs))).all())


def _keeping(session: Session, structures: Mapping[int, Structure | None]) -> Keep:
    """Return a function that projects directions to preserve the structure of an input."""

    def keep(position: int, direction: Tensor) -> Tensor:
        structure, like = structures[position], session.inputs[position]
        if structure is None:
            return direction
        shaped = direction.reshape(as_real(like).shape)
        shaped = torch.view_as_complex(shaped) if like.is_complex() else shaped
        return as_real(structure.tangent(shaped)).reshape(-1)

    return keep


RIGHT = 1e-3  # relative to a gradient; a solver may be less accurate
RIGHT_ROUNDED = 1e-2  # in float32


def agrees_for(session: Session, grad_outputs: Sequence[Tensor | None]) -> bool:
    """Return whether the gradients for these cotangents agree with the slopes of ``forward``.

    ``grad_outputs`` holds one cotangent for each tensor that ``forward`` returns. Ignore directions
    along which ``forward`` jumps, unless it jumps along all of them.
    """
    found = _after_forward(session)
    outputs = [out for out in found.forward.outputs if isinstance(out, Tensor)]
    if found.forward.failure or len(outputs) != len(grad_outputs):
        return False
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs, strict=True) if is_float(o)]
    if any(g is not None and g.shape != out.shape for out, g in pairs):
        return False
    sent = tuple(None if g is None else g.to(out.device, out.dtype) for out, g in pairs)
    vjp = backward_pass(session, sent)
    if vjp.failure:
        return False
    found = replace(found, values=replace(found.values, vjps={RANDOM: vjp}))
    values = _values(session, flat([out for out, _ in pairs]))
    keep = _keeping(session, {i: structure_of(session.inputs[i]) for i in session.wanted})
    rng = generator(session.seed, Stream.STRUCTURES)
    rounded = any(out.dtype not in (torch.float64, torch.complex128) for out, _ in pairs)
    tolerance = RIGHT_ROUNDED if rounded else RIGHT
    along = (slopes(values, session.inputs, session.wanted, rng, keep, step) for step in STEPS)
    return any(deviation(found, each.where_smooth()) <= tolerance for each in along)


def _piecewise(session: Session, found: Evidence, values: Values) -> Iterator[int]:
    """Yield the indices of inputs that affect the output only if they change considerably."""
    rng = generator(session.seed, Stream.FAR)
    smooth = any(bool(columns.matrix.any()) for columns in found.values.jacobian)
    factors = () if smooth else FAR_FACTORS
    there = session.on_cpu()
    values_there = (
        values if there is session else _values(there, on_cpu(values(copied(session.inputs))))
    )
    for slot, columns in enumerate(found.values.jacobian):
        position = session.wanted[slot]
        if not columns.index.numel() or bool(columns.matrix[:, columns.smooth].any()):
            continue
        like_it = (another(session.inputs[position], rng) for _ in range(FAR_INPUTS))
        beyond = (factor * there.inputs[position].detach() for factor in factors)
        if _is_changed(session, position, like_it, values) or _is_changed(
            there, position, beyond, values_there
        ):
            yield slot


def _is_changed(session: Session, position: int, others: Iterable[Tensor], values: Values) -> bool:
    """Return whether the result of ``forward`` changes if any of ``others`` replaces an input."""
    here = values(copied(session.inputs))
    for other in others:
        inputs = copied(session.inputs)
        inputs[position] = other
        found = attempt(partial(values, inputs))
        if not isinstance(found, Failure) and bool(((found - here).abs() > 0).any()):
            return True
    return False


def _after_forward(session: Session) -> Evidence:
    """Run one forward pass. Return its results and the facts that are known without running it."""
    subject = session.subject
    return Evidence(
        subject=subject.name,
        inputs=session.inputs,
        parameters=subject.parameters,
        wanted=session.wanted,
        is_function=subject.function is not None,
        forward=forward_pass(session),
        omitted=subject.omitted,
        contract=Contract(
            instance_methods=subject.instance_methods,
            backward_source=subject.backward_source,
            stated_design=subject.stated_design,
        ),
    )


def _after_backward(
    session: Session,
    found: Evidence,
    linear: Range,
    one: tuple[Tensor, ...],
    two: tuple[Tensor, ...],
    in_other_dtypes: bool,
) -> Evidence:
    """Add the results of ``backward``, both from a direct call and from the autograd engine."""
    if found.forward.whole:
        raw = direct_call(session, one)
        others = variants(session, one, raw) if in_other_dtypes else ()
        found = replace(
            found,
            contract=replace(found.contract, direct=raw),
            variants=replace(found.variants, dtypes=others),
        )
    if found.contract.direct and found.contract.direct.failure:
        return found
    ones, _ = drawn_from(linear, *2 * ([torch.ones_like(g) for g in one],))
    one, two = drawn_from(linear, one, two)
    return replace(
        found,
        values=replace(found.values, vjps=_vjps(session, dict(cotangents(one, two, ones)))),
        variants=replace(found.variants, interleaved=backward_pass(session, one, interleaved=True)),
    )


def _rejected(found: Evidence) -> Failure | None:
    """Return the error that autograd raises if ``backward`` returns too many or too few gradients.

    Return ``None`` if autograd does not raise this error.
    """
    direct, vjp = found.contract.direct, found.values.vjps.get(RANDOM)
    if direct is None or direct.failure or vjp is None or vjp.failure is None:
        return None
    return vjp.failure if "incorrect number of gradients" in vjp.failure.text else None


def _without_grad(found: Evidence, values: Tensor, graded: Values) -> Comparison | None:
    """Compare the outputs of ``forward`` with and without inputs that require grad.

    Return ``None`` if the outputs are equal.
    """
    outputs = tuple(output for output in found.forward.outputs if is_float(output))
    right = tuple(map(in_double, outputs))
    parts = values.split([as_real(output).numel() for output in right])
    shaped = [part.view(as_real(out).shape) for part, out in zip(parts, right, strict=True)]
    without = tuple(
        torch.view_as_complex(part) if out.is_complex() else part
        for part, out in zip(shaped, right, strict=True)
    )
    if bool(values.isnan().any()) or all(map(same, without, right)):
        return None
    # the outputs differ even between two calls with grad, so there is no evidence
    if not torch.equal(graded(copied(found.inputs)), flat(outputs)):
        return None
    names = tuple(output_names(len(outputs)))
    return Comparison("without grad", "if no input requires grad", names, without, right)


def _values(session: Session, like: Tensor, *, in_grad_mode: bool = False) -> Values:
    """Return a function that calls ``forward`` and flattens the outputs into one vector.

    The call runs in grad mode if ``in_grad_mode`` is true, or if the subject is a callable that
    fails without grad mode. If ``forward`` raises an error or returns a different number of
    elements, the vector contains only nan, because no slope exists.
    """

    def values(args: Sequence[Any]) -> Tensor:
        with torch.set_grad_enabled(in_grad_mode):
            call = fresh(args, session.wanted)[1] if in_grad_mode else args
            returned = attempt(lambda: session.call(call, watched=False))
        if isinstance(returned, Failure) and session.subject.function is None:
            _, leaves = fresh(args, session.wanted)
            returned = attempt(lambda: session.call(leaves, watched=False))
        if isinstance(returned, Failure):
            return nowhere
        found = flat([out for out in returned if is_float(out)])
        return found if found.numel() == like.numel() else nowhere

    nowhere = torch.full_like(like, torch.nan)
    return values


def cotangents(
    one: Sequence[Tensor], two: Sequence[Tensor], ones: Sequence[Tensor] | None = None
) -> Iterator[tuple[Cotangent, Cotangents]]:
    """Yield named cotangents, such as g and 2 g, to test whether ``backward`` is linear."""
    yield RANDOM, tuple(one)
    yield OTHER, tuple(two)
    yield SUM, tuple(a + b for a, b in zip(one, two, strict=True))
    yield DOUBLE, tuple(2 * g for g in one)
    yield NEGATIVE, tuple(-g for g in one)
    yield LARGE, tuple(LARGE_FACTOR * g for g in one)
    yield ZERO, tuple(torch.zeros_like(g) for g in one)
    yield ONES, tuple(torch.ones_like(g) for g in one) if ones is None else tuple(ones)
    if len(one) > 1:
        for k in range(len(one)):
            yield Cotangent("single", k), tuple(g if j == k else None for j, g in enumerate(one))


def _vjps(session: Session, cotangents: dict[Cotangent, Cotangents]) -> dict[Cotangent, VjpResult]:
    """Run autograd's backward pass for each cotangent. Stop if the first pass fails."""
    random = backward_pass(session, cotangents[RANDOM])
    if random.failure:
        return {RANDOM: random}
    return {RANDOM: random} | {
        name: backward_pass(session, g) for name, g in cotangents.items() if name != RANDOM
    }
