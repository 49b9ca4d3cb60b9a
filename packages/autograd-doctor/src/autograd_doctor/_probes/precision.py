"""Find results that lose digits, overflow, or become nan where the exact result is finite."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import attempt, passes_within
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.lines import line_not_finite, line_with_nan
from autograd_doctor._execution.passes import both_ways, gradients, sample_cotangents
from autograd_doctor._execution.session import Move, Run, Session, stay
from autograd_doctor._numerics.closeness import size
from autograd_doctor._numerics.rounding import (
    EPS,
    EXCESSIVE,
    Values,
    alike,
    distance,
    each,
    excess,
    finite,
    peaks,
    representable,
    wide,
)
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor._probes.comparison import output_names
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import Evidence, Extreme, Float32Steps
from autograd_doctor.formatting import element, number

# --------------------------------------------------------------------------------------------------
# Make the same call in float32 and in float64. The results may differ only by rounding.
# --------------------------------------------------------------------------------------------------

PATIENCE = 1.0  # time limit in seconds for one pass

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Precisions:
    """Forward and backward passes in float32 or in float64.

    Methods that return outputs and gradients return ``None`` if the call raises an error or takes
    too long. Complex inputs are not supported.
    """

    session: Session
    unfinished: list[float] = field(default_factory=list)
    """The largest number in the inputs of each call that took too long."""

    def single(self, inputs: Inputs) -> Values | None:
        """Return the outputs and gradients in float32."""
        return self._values(self.session, _short, inputs)

    def double(self, inputs: Inputs) -> Values | None:
        """Return the outputs and gradients in float64."""
        return self._values(self.session, stay, inputs)

    def both(self, inputs: Inputs) -> tuple[Values, Values] | None:
        """Return the outputs and gradients in float32 and in float64.

        Return ``None`` if their shapes differ.
        """
        single, double = self.single(inputs), self.double(inputs)
        if single is None or double is None or not alike(single, double):
            return None
        return single, double

    def rounded_once(self, inputs: Inputs, draw: int) -> Values | None:
        """Return the float64 results with a random rounding error in each input and cotangent.

        Each draw also changes the seed of the call. A random Function draws different numbers in
        float32 and in float64, and this difference must not count as a loss of precision.
        """
        session = copy.copy(self.session)
        session.seed += draw
        rng = generator(session.seed, Stream.SHORT_INPUTS)
        return self._values(session, stay, jittered(inputs, EPS, rng), rng)

    def extreme(self, evidence: Evidence, how: str, inputs: Inputs, *both: Values) -> Extreme:
        """Store the results in float32 and in float64 as evidence."""
        double = both[-1]
        outputs = [value for value in double[: -len(evidence.wanted)] if value is not None]
        gradients = (evidence.gradient_name(position) for position in evidence.wanted)
        return Extreme(
            how=how,
            names=(*output_names(len(outputs)), *gradients),
            inputs=inputs,
            grad_outputs=tuple(self._cotangents(outputs)),
            single=both[0],
            double=double,
        )

    def line_of(
        self, found: Extreme, gradients_wanted: int, move: Move = stay, plain: Inputs = ()
    ) -> Extreme:
        """Add the source line that produces the first non-finite number or the first nan.

        ``plain`` holds inputs for which every number is finite. Without ``plain``, look for the
        first nan. If the outputs contain no such number, examine only ``backward``.
        """
        values = found.single or found.double
        outputs = values[:-gradients_wanted]
        only_backward = finite(outputs) if plain else not _nan(outputs)

        def passes(inputs: Inputs) -> Callable[[], object]:
            forward = partial(self.session.run, move, inputs=inputs)
            run = attempt(forward) if only_backward else None

            def call() -> None:
                done = run or forward()
                if isinstance(done, Run):
                    gradients(done, self._cotangents(done.floats))

            return call

        try:
            with passes_within(PATIENCE):
                failing = passes(found.inputs)
                line, computes = (
                    line_not_finite(failing, passes(plain)) if plain else line_with_nan(failing)
                )
        except CannotDiagnoseError:
            return found
        return replace(found, line=line, computes=computes)

    def _values(
        self, session: Session, move: Move, inputs: Inputs, rng: torch.Generator | None = None
    ) -> Values | None:
        def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
            gs = self._cotangents(outputs)
            return gs if rng is None else [_moved(g, EPS, rng) for g in gs]

        try:
            with passes_within(PATIENCE):
                done = both_ways(session, cotangents, move, inputs=inputs)
        except CannotDiagnoseError:  # a solver may never finish for these numbers
            self.unfinished.append(max(size(inputs[i]) for i in self.session.wanted))
            return None
        return None if done.failure else each(wide, (*done.outputs, *done.grads))

    def _cotangents(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Draw cotangents that float32 can represent exactly.

        The numbers are the same for float32 and float64 outputs.
        """
        rng = generator(self.session.seed, Stream.SHORT_COTANGENTS)
        return [
            torch.randn(out.shape, generator=rng, dtype=torch.float32).to(out) for out in outputs
        ]


def _short(tensor: Tensor) -> Tensor:
    return tensor.float()


def as_single_holds(inputs: Sequence[Any]) -> Inputs:
    """Round the arguments to float32 precision, but keep them as float64 tensors."""
    return tuple(value.float().double() if is_float(value) else value for value in inputs)


def jittered(inputs: Inputs, by: float, rng: torch.Generator) -> Inputs:
    """Randomly increase or decrease each number in the arguments by the relative amount ``by``."""
    return as_single_holds([_moved(v, by, rng) if is_float(v) else v for v in inputs])


def _moved(tensor: Tensor, by: float, rng: torch.Generator) -> Tensor:
    up = torch.rand(tensor.shape, generator=rng, dtype=torch.float64).to(tensor.device) < 0.5
    return tensor * torch.where(up, 1 + by, 1 - by).to(tensor.dtype)


# --------------------------------------------------------------------------------------------------
# Compare the rounding errors of one float32 call with the unavoidable rounding errors.
# --------------------------------------------------------------------------------------------------

DRAWS = 2  # more than one draw, because the rounding errors in one draw may cancel by chance
ROUGH = 0.2  # typical rounding errors at nearby inputs differ by more than this fraction


def coarseness(
    call: Precisions,
    inputs: Inputs,
    both: tuple[Values, Values],
    beside: Callable[[], Inputs],
    grain: Sequence[float],
) -> tuple[Values, Values]:
    """Return the errors of the float32 results, and the errors that noise can explain.

    Both are empty if noise can explain every error. Noise is the effect of one rounding error in
    each input and cotangent. For each result, the noise is at least ``grain``.

    ``both`` holds the results for ``inputs`` in float32 and in float64. ``beside`` returns inputs
    that are close to ``inputs``.
    """
    error = each(distance, *both)
    if all(e <= EXCESSIVE * g for e, g in zip(peaks(error), grain, strict=True)):
        return (), ()  # usually, no further call is necessary
    there, noise = call.both(beside()), _noise(call, inputs, both[1], grain)
    if there is None or noise is None or not alike(there[1], both[1]):
        return (), ()
    change = each(distance, each(torch.sub, *both), each(torch.sub, *there))
    measured = zip(error, change, both[1], noise, strict=True)
    error = tuple(e if _is_rounding(e, *others) else None for e, *others in measured)
    return (error, noise) if any(e is not None for e in error) else ((), ())


def _noise(
    call: Precisions, inputs: Inputs, double: Values, grain: Sequence[float]
) -> Values | None:
    """Return how much rounding errors in the inputs and cotangents change the float64 results."""
    least = zip(double, grain, strict=True)
    noise: Values = tuple(None if v is None else torch.full_like(v.abs(), g) for v, g in least)
    for draw in range(1, DRAWS + 1):
        moved = call.rounded_once(inputs, draw)
        if moved is None or not alike(moved, double):
            return None
        noise = each(torch.maximum, noise, each(distance, moved, double))
    return noise


def _is_rounding(
    error: Tensor | None, change: Tensor | None, value: Tensor | None, noise: Tensor | None
) -> bool:
    """Return whether an error is larger than the noise and is as irregular as a rounding error.

    An error that is almost the same for nearby inputs has another cause, such as a random draw, the
    sign of an eigenvector, or a tolerance that depends on the dtype.
    """
    if error is None or change is None or excess(error, value, noise) <= EXCESSIVE:
        return False
    off = error != 0
    return float((change[off] / error[off]).median()) > ROUGH


# --------------------------------------------------------------------------------------------------
# Try inputs for which float32 may lose digits: the example, fractions of it, and shifted inputs.
#
# A formula loses digits if large numbers cancel, or if it adds a small number to a large one.
# --------------------------------------------------------------------------------------------------

FRACTIONS = (1e-4, 1e-2)
SHIFT = 1000.0  # times the spread of the inputs, as for years around 2000 with a spread of 2
# relative change: large enough to change rounding errors, small enough to change nothing else
ASIDE = 0.05


@dataclass(frozen=True)
class _Neighbor:
    """A way to change the example, and a factor by which rounding errors may grow."""

    how: str
    change: Callable[[Inputs], Inputs]
    growth: float = 1.0


def neighborhood(call: Precisions, evidence: Evidence, example: Inputs) -> Iterator[Extreme]:
    """Yield the calls for which float32 loses digits or returns numbers that are not finite.

    The allowed rounding error is relative to the largest result so far, even if the current result
    is small. For example, the gradient of a sigmoid is small in the tails, but its rounding error
    may be as large there as near 0.
    """
    on_example = call.both(example)
    if on_example is None:
        return
    aside = jittered(example, ASIDE, generator(call.session.seed, Stream.ASIDE))
    elementwise = _is_elementwise(call, example, aside, on_example[1])
    neighbors = _neighbors(evidence, example, FRACTIONS if elementwise else ())
    largest: list[float] = []
    for neighbor in neighbors:
        inputs, beside = neighbor.change(example), partial(neighbor.change, aside)
        is_example = inputs is example
        both = on_example if is_example else call.both(inputs)
        if both is None:
            continue
        sizes = peaks(both[1])
        largest = [max(pair) for pair in zip(sizes, largest or sizes, strict=True)]
        grain = [EPS * neighbor.growth * size for size in largest]
        if not (elementwise or is_example):
            grain = _of_outputs(grain, len(evidence.wanted))
        ordinary = finite(both[0])
        error, noise = coarseness(call, inputs, both, beside, grain) if ordinary else ((), ())
        if error or not ordinary:
            found = call.extreme(evidence, neighbor.how, inputs, *both)
            yield replace(found, error=error, noise=noise, is_example=is_example)


def _is_elementwise(call: Precisions, example: Inputs, aside: Inputs, double: Values) -> bool:
    """Return whether each element of the results depends on only one element of one input.

    If an elementwise Function loses digits for small inputs, its formula is the cause. If a
    Function mixes elements, cancellation may be unavoidable. Examples are the gradient of a
    softmax with nearly equal inputs and a batch norm after a bias.
    """
    if len(call.session.wanted) > 1:
        return False
    (position,) = call.session.wanted
    x = example[position]
    if any(value is None or value.shape != x.shape for value in double):
        return False
    rng = generator(call.session.seed, Stream.HALVES)
    kept = (torch.rand(x.shape, generator=rng) < 0.5).to(x.device)
    half = list(example)
    half[position] = torch.where(kept, x, aside[position])
    moved = call.double(tuple(half))
    if moved is None or not alike(double, moved):
        return False
    return not any(peaks(each(lambda one, other: (one - other)[kept], double, moved)))


def _of_outputs(grain: list[float], gradients: int) -> list[float]:
    """Allow infinite noise for each gradient so that the rules judge only the outputs.

    If inputs are far from zero, even a correct backward loses digits when it sums over a gradient.
    An example is a linear layer before a batch norm.
    """
    return grain[:-gradients] + [math.inf] * gradients


def _neighbors(
    evidence: Evidence, example: Inputs, fractions: Sequence[float]
) -> Iterator[_Neighbor]:
    """Yield ways to change the example, ordered by the size of the changed inputs."""
    wanted = evidence.wanted
    one = len(wanted) == 1
    are, their = (f"`{evidence.name(wanted[0])}` is", "its") if one else ("the inputs are", "their")
    for fraction in fractions:
        how = f"when {are} multiplied by {fraction:g}"
        yield _Neighbor(how, _changed(wanted, torch.mul, fraction))
    yield _Neighbor("on your inputs", lambda inputs: inputs)
    data = _data(evidence, example)
    shift = SHIFT * max(_spread(example[i]) for i in data)
    how = f"when {are} shifted by {SHIFT:g} times {their} spread"
    yield _Neighbor(how, _changed(data, torch.add, shift), SHIFT)


def _data(evidence: Evidence, example: Inputs) -> Sequence[int]:
    """Return the positions of the inputs that look like data, which may be far from zero.

    The other inputs look like parameters or operators, which are seldom far from zero.
    Parameters usually have fewer dims than data. A square matrix is usually an operator.
    """
    axes = max(example[i].dim() for i in evidence.wanted)
    most = [i for i in evidence.wanted if example[i].dim() == axes]
    return [i for i in most if axes < 2 or example[i].shape[-1] != example[i].shape[-2]] or most


def _changed(
    positions: Sequence[int], operation: Callable[[Tensor, float], Tensor], by: float
) -> Callable[[Inputs], Inputs]:
    def change(inputs: Inputs) -> Inputs:
        return as_single_holds(
            [operation(v, by) if i in positions else v for i, v in enumerate(inputs)]
        )

    return change


def _spread(tensor: Tensor) -> float:
    """Return the finite elements' standard deviation, or their largest magnitude if it is 0."""
    known = tensor[torch.isfinite(tensor)]
    spread = float(known.std(correction=0)) if known.numel() else 0.0
    return spread or size(tensor)


# --------------------------------------------------------------------------------------------------
# Try inputs far from the example: large or small numbers, shifted inputs, and masks of -inf.
#
# The probe reports two kinds of calls. In the first kind, float32 returns nan or infinity, or loses
# more digits than rounding explains. In the second kind, a mask of -inf causes nan.
# --------------------------------------------------------------------------------------------------

# exp overflows at 89 in float32 and at 710 in float64, so magnitudes that differ by less than a
# factor of 8 cannot skip the range between 89 and 710.
RUNGS = tuple(10 ** (k / 2) for k in range(1, 7))  # to 1000
LOW = -50.0  # exp(-50) is nearly 0, like exp(-inf), but it does not underflow


def extremes(session: Session, evidence: Evidence) -> Evidence:
    """Record the calls that fail in float32 but not in float64, and masks that cause nan."""
    tensors = [value for value in session.inputs if isinstance(value, Tensor)]
    # Elements of a tensor can become large. A single number, such as an exponent or a temperature,
    # usually stays small.
    several = [i for i in session.wanted if session.inputs[i].numel() > 1] or session.wanted
    empty = not all(session.inputs[i].numel() for i in session.wanted)
    if empty or any(t.is_complex() for t in tensors):
        return evidence
    session = session.on_cpu()
    call, example = Precisions(session), as_single_holds(session.inputs)
    far = [found for i in several for found in _ladder(call, evidence, example, i)]
    near = list(neighborhood(call, evidence, example))
    masked = [found for i in session.wanted for found in _masked(call, evidence, example, i)]
    worst_first = sorted([*far, *near], key=lambda found: not found.is_example)
    found = (*worst_first, *masked)
    unfinished = min(call.unfinished, default=None)
    variants = replace(evidence.variants, extremes=found, unfinished=unfinished)
    return replace(evidence, variants=variants)


def _ladder(
    call: Precisions, evidence: Evidence, example: Inputs, position: int
) -> Iterator[Extreme]:
    """Increase the magnitude of one input until float32 overflows, and yield that call."""
    largest = size(example[position])
    rungs = [rung for rung in RUNGS if rung > largest > 0]

    def at(rung: float) -> Inputs:
        return as_single_holds(_with(example, position, example[position] * (rung / largest)))

    if not rungs or not _overflows(call.single(at(rungs[-1]))):
        return  # if the largest magnitude works, all smaller magnitudes work too
    first = next(rung for rung in rungs if rung is rungs[-1] or _overflows(call.single(at(rung))))
    both = call.both(at(first))
    if both is not None:
        name, sign = evidence.name(position), _sign_of_lost(at(first)[position], both[0])
        of = (
            f"`{name}` reaches {number(sign * first)}"
            if sign
            else f"`|{name}|` reaches {number(first)}"
        )
        found = call.extreme(evidence, f"once {of}", at(first), *both)
        named = representable(both[1])  # otherwise, the rules report nothing
        yield call.line_of(found, len(evidence.wanted), _short, example) if named else found


def _sign_of_lost(given: Tensor, values: Values) -> int:
    """Return the sign of the elements whose results are not finite.

    Return 0 if elements of both signs have such results.
    """
    alike = [it for it in values if it is not None and it.shape == given.shape]
    lost = [~torch.isfinite(value) for value in alike if not bool(torch.isfinite(value).all())]
    for sign in (1, -1):
        other = given * sign < 0
        if lost and bool(other.any()) and not any(bool(mask[other].any()) for mask in lost):
            return sign
    return 0


def _overflows(values: Values | None) -> bool:
    return values is not None and not finite(values)


def _masked(
    call: Precisions, evidence: Evidence, example: Inputs, position: int
) -> Iterator[Extreme]:
    """Yield the calls in which one element or one row of -inf causes nan, but -50 does not."""
    name, tensor = evidence.name(position), example[position]
    if tensor.numel() == 1:
        return  # a mask hides some of several scores, and this may be a parameter
    first = (0,) * tensor.dim()

    def filled(place: tuple[int, ...], value: float) -> Inputs:
        changed = tensor.clone()
        changed[place] = value
        return _with(example, position, changed)

    if not _nan(call.double(filled(first[:-1], -torch.inf))):
        return  # if a whole row works, a single element works too
    for place in (first, first[:-1]) if first else (first,):
        inputs = filled(place, -torch.inf)
        double, bounded = call.double(inputs), call.double(filled(place, LOW))
        # Outside the domain of a function such as log, -50 also gives nan.
        if double is None or bounded is None or not _nan(double) or not finite(bounded):
            continue
        if not _saturates(bounded, call.double(filled(place, 2 * LOW)), len(evidence.wanted)):
            # this input does not hold scores, so a mask of -inf has no meaning
            continue
        every = "every element of " if len(place) < tensor.dim() else ""
        how = f"when {every}`{element(name, place)}` is -inf"
        found = replace(call.extreme(evidence, how, inputs, (), double), masked=position)
        yield call.line_of(found, len(evidence.wanted))


def _saturates(low: Values, lower: Values | None, gradients: int) -> bool:
    """Return whether the gradients stay the same when a very low input decreases further."""
    if lower is None or not alike(low, lower):
        return False
    pairs = zip(low[-gradients:], lower[-gradients:], strict=True)
    return all(
        one is None or other is None or torch.allclose(one, other, rtol=1e-6, atol=1e-9)
        for one, other in pairs
    )


def _nan(values: Values | None) -> bool:
    return values is not None and any(map(math.isnan, peaks(values)))


def _with(inputs: Inputs, position: int, tensor: Tensor) -> Inputs:
    return (*inputs[:position], tensor, *inputs[position + 1 :])


# --------------------------------------------------------------------------------------------------
# Do float64 results change as smoothly for a tiny step as for a larger step?
#
# A Function may compute in float32 internally and return float64 numbers. These numbers stay
# constant while the inputs change by less than float32 can resolve, and then they jump.
# --------------------------------------------------------------------------------------------------

# relative to each number: less than 1/60 of float32's resolution, far above float64's resolution
NEAR = 1e-9
FAR = 1e-4  # small enough for a linear change, but hundreds of float32 steps


def float32_steps(session: Session, evidence: Evidence) -> Evidence:
    """Change the inputs and the cotangents slightly, and record how the results change."""
    floats = [value for value in (*session.inputs, *evidence.forward.outputs) if is_float(value)]
    if any(tensor.dtype != torch.float64 for tensor in floats):
        return evidence
    found = [_values(session, by) for by in (0.0, NEAR, FAR)]
    here, near, far = (() if values is None else values for values in found)
    if not (here and alike(here, near) and alike(here, far)):
        return evidence
    outputs = output_names(len(here) - len(session.wanted))
    names = (*outputs, *(evidence.gradient_name(position) for position in session.wanted))
    return replace(
        evidence,
        variants=replace(
            evidence.variants, float32_steps=Float32Steps(names, here, near, far, NEAR / FAR)
        ),
    )


def _values(session: Session, by: float) -> Values | None:
    """Change each input and cotangent by the relative amount ``by``. Return all results.

    Each number increases or decreases at random, but in the same direction in every call. Replace a
    result that is not in float64 with ``None``, because a different rule reports it.
    """
    rng = generator(session.seed, Stream.STAIRS)

    def moved(tensor: Tensor) -> Tensor:
        way = torch.rand(tensor.shape, generator=rng, dtype=torch.float64).sub(0.5).sign()
        # do not use where(…, 1 + by, …), which computes in float32
        return tensor * (1 + by * way).to(tensor.device)

    def cotangents(outputs: Sequence[Tensor]) -> list[Tensor]:
        return [moved(g) for g in sample_cotangents(outputs, rng)]

    inputs = [moved(v) if i in session.wanted else v for i, v in enumerate(session.inputs)]
    try:
        with passes_within(PATIENCE):
            done = both_ways(session, cotangents, inputs=inputs)
    except CannotDiagnoseError:  # a solver may take too long, so there is no verdict
        return None
    if done.failure:
        return None
    return tuple(
        tensor if tensor is not None and tensor.dtype == torch.float64 else None
        for tensor in (*done.outputs, *done.grads)
    )
