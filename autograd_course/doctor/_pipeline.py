"""Probe a subject on the caller's example and on other inputs like it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.cases import (
    SPREADS,
    beside,
    in_double,
    own_dtypes,
    require_dense,
    varied,
    wanted,
)
from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.probe import probe
from autograd_course.doctor.probes import ALWAYS, Probe
from autograd_course.doctor.running.calls import USERS, as_tuple, is_float
from autograd_course.doctor.running.subject import Subject
from autograd_course.doctor.shown import first_line
from autograd_course.doctor.world.randomness import Stream, generator

Sampler = Callable[[torch.Generator], Sequence[Any]]

SAMPLES = 2  # drawn from a sampler, beside the example


def examine(
    subject: Subject,
    args: Sequence[Any],
    sampler: Sampler | None,
    seed: int,
    further: Sequence[Probe] | None = (),
    *,
    any_output: bool,
    intentional: Collection[str] = (),
) -> list[Evidence]:
    """Return evidence on the example first, then on what is sampled, or else on a variation of it.

    The example alone is looked at by the ``further`` probes, and in other dtypes; where they are
    ``None``, not even the example. Unless ``any_output``, an output that is nan is refused with
    :class:`DoctorError`: without a reference there is no truth there.
    """
    example = on_example(subject, args, seed, further, intentional=intentional)
    if (failed := example.forward.failure) and failed.runs_in_own_dtype:
        return [example]  # float64 copies show nothing of this Function
    evidence = [example]
    evidence += [
        _probe(subject, case, seed, intentional=intentional)
        for case in _sampled(sampler, len(args), seed)
    ]
    if not any_output:
        _require_numbers(evidence)
    if sampler:
        return evidence
    return evidence + _variation(subject, args, seed, evidence[0], intentional)


def beside_kinks(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each input where the example lies on kinks and others were taken."""
    for position, kinks in zip(evidence.wanted, _kinks(evidence), strict=False):
        if len(kinks):
            total = evidence.inputs[position].numel()
            yield (
                f"`{evidence.name(position)}` near kinks: `forward` is not differentiable at "
                f"{len(kinks)} of its {total} elements, so these were moved slightly"
            )


def hiding(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each number of the example at which a mistake does not show."""
    for position, value in enumerate(evidence.inputs):
        if type(value) is float and value in (0.0, 1.0):
            name = evidence.name(position)
            what = "term with" if value == 0 else "factor"
            yield f"`{name}` only at {value:g}, where a missing {what} `{name}` does not show"


def on_example(
    subject: Subject,
    args: Sequence[Any],
    seed: int,
    further: Sequence[Probe] | None,
    *,
    differences: bool = True,
    own: Sequence[torch.dtype | None] = (),
    intentional: Collection[str] = (),
) -> Evidence:
    """Return evidence on the example, with what the subject reaches in float64 if that runs."""
    around = subject.around
    seen = _probe(subject, args, seed, further, differences, own, intentional)
    if seen.forward.failure and around.held and around.precise:
        around.precise = False
        again = _probe(subject, args, seed, further, differences, own, intentional)
        around.precise = again.forward.failure is not None
        seen = seen if around.precise else again
    return seen


def _probe(
    subject: Subject,
    case: Sequence[Any],
    seed: int,
    further: Sequence[Probe] | None = None,
    differences: bool = True,
    own: Sequence[torch.dtype | None] = (),
    intentional: Collection[str] = (),
) -> Evidence:
    """Return evidence on one case; without further probes nothing is asked that needs no values.

    ``own`` are the dtypes that the caller's inputs have, where they are not those of the case.
    """
    own = own or own_dtypes(case)
    places = wanted(case)
    values = [in_double(value) for value in case]
    probes, closely = (*ALWAYS, *(further or ())), further is not None
    seen = probe(
        subject,
        values,
        places,
        seed,
        probes,
        own_dtypes=own,
        intentional=intentional,
        in_other_dtypes=closely,
        differences=differences,
    )
    subject.around.begin()
    return seen


def _sampled(sampler: Sampler | None, count: int, seed: int) -> list[tuple[Any, ...]]:
    rng = generator(seed, Stream.SAMPLES)
    return [] if sampler is None else [_drawn(sampler, count, rng) for _ in range(SAMPLES)]


def _drawn(sampler: Sampler, count: int, rng: torch.Generator) -> tuple[Any, ...]:
    try:
        case = as_tuple(sampler(rng))
    except USERS as error:
        raise DoctorError(
            f"the sampler raised {type(error).__name__}: {first_line(error)}"
        ) from error
    if len(case) != count:
        raise DoctorError(f"the sampler drew {len(case)} inputs, but the example has {count}.")
    require_dense(case)
    return case


def _variation(
    subject: Subject,
    args: Sequence[Any],
    seed: int,
    example: Evidence,
    intentional: Collection[str],
) -> list[Evidence]:
    """Return evidence on the widest variation of the example that stays inside the domain.

    Where forward has a kink at the example, the variation lies beside it.
    """
    rng = generator(seed, Stream.VARIATIONS)
    kinks = dict(zip(example.wanted, _kinks(example), strict=False))
    for spread in SPREADS:
        case = [beside(v, kinks.get(i), rng) for i, v in enumerate(varied(args, spread, rng))]
        evidence = _probe(subject, case, seed, own=own_dtypes(args), intentional=intentional)
        if not evidence.forward.failure and not _nan_output(evidence):
            return [evidence]
    return []


def _kinks(evidence: Evidence) -> Iterator[Tensor]:
    """Yield, for each wanted input, the flat positions at which forward is not differentiable."""
    for position, columns in zip(evidence.wanted, evidence.jacobian, strict=False):
        pairs = 2 if evidence.inputs[position].is_complex() else 1
        yield (columns.index[~columns.smooth] // pairs).unique()


def _require_numbers(evidence: Sequence[Evidence]) -> None:
    """Refuse inputs on which forward gives nan: without a reference there is no truth there."""
    for seen in evidence:
        if place := _nan_output(seen):
            raise DoctorError(
                f"forward of {seen.subject} returned nan ({place}): pass inputs inside its "
                "domain, or pass a reference= that defines the right values there."
            )


def _nan_output(evidence: Evidence) -> str:
    """Say where forward returned nan, ``""`` where it did not."""
    for k, output in enumerate(evidence.forward.outputs):
        if is_float(output) and bool(torch.isnan(output).any()):
            return f"output {k}, index {torch.isnan(output).nonzero()[0].tolist()}"
    return ""
