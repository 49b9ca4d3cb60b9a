"""Run a Function on the example and on similar inputs, and return the observations as evidence.

These are steps 2 to 8 of a diagnosis; see ``_pipeline``. This module imports no rules and no other
code that judges, so that the process that runs the code does not have to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import USERS, attempt, passes_within, prepare
from autograd_doctor._execution.captured_state import CapturedState
from autograd_doctor._execution.isolation import Stream, generator, preserve_global_state
from autograd_doctor._execution.session import Session, Subject, subject_of
from autograd_doctor._inputs import (
    all_in_double,
    beside,
    hides_mistakes,
    own_dtypes,
    require_dense,
    singular,
    varied,
    wanted,
    with_other_numbers,
)
from autograd_doctor._interception import paused
from autograd_doctor._numerics.tensors import as_tuple, is_float
from autograd_doctor._probes import ALWAYS, EXPLAINING, Probe, probes_for
from autograd_doctor._probes.core import choose_precision, probe
from autograd_doctor._safe_repr import first_line
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import Evidence, Failure

Sampler = Callable[[torch.Generator], Sequence[Any]]

SAMPLES = 2  # sampled inputs, in addition to the example
DRAWS = 2  # variations to try, because the first may lie outside the domain


def collect_evidence(
    fn: type[Function] | Callable[..., Any],
    inputs: Sequence[Any],
    *,
    double_backward: bool | None = None,
    sampler: Sampler | None = None,
    thorough: bool = True,
    seed: int = 0,
    time_limit: float = 30.0,
) -> list[Evidence]:
    """Run a Function as ``diagnose`` does, and return the observations without judging them.

    Args:
        fn: As for :func:`~autograd_doctor.diagnose`.
        inputs: The arguments of one example call.
        double_backward: As for :func:`~autograd_doctor.diagnose`.
        sampler: As for :func:`~autograd_doctor.diagnose`.
        thorough: ``False`` examines only gradients and their values.
        seed: As for :func:`~autograd_doctor.diagnose`.
        time_limit: As for :func:`~autograd_doctor.diagnose`.

    Returns:
        Evidence from the example, followed by evidence from other inputs. It does not
        contain the expected gradients. The judge computes them from a reference or by finite
        differences.

    Raises:
        CannotDiagnoseError: As for :func:`~autograd_doctor.diagnose`.
    """
    with report_own_faults(), paused():
        prepare()
        subject = capture_state(subject_of(fn, len(inputs)), inputs)
        extra_probes = probes_for("standard", double_backward) if thorough else None
        with preserve_global_state(seed), subject.around.borrow(), passes_within(time_limit):
            subject = choose_precision(subject, inputs, seed)
            return examine_samples(subject, inputs, sampler, seed, extra_probes, any_output=True)


def capture_state(subject: Subject, args: Sequence[Any], *others: Any) -> Subject:
    """Find all state that the subject, its arguments and the other callables can reach."""
    named = zip(subject.parameters, args, strict=True)
    hidden = [(name, value) for name, value in named if not isinstance(value, Tensor)]
    root = (subject.name, subject.function) if subject.function else ("self", subject.call)
    around = CapturedState(root, *hidden, *(("", other) for other in others))
    return replace(subject, around=around, passed=around.passed(args))


@contextmanager
def report_own_faults() -> Iterator[None]:
    """Convert an error in the doctor itself to a message that does not look like a verdict."""
    try:
        yield
    except CannotDiagnoseError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise CannotDiagnoseError(f"diagnose itself failed: {what}") from error


def ordinary_pass(subject: Subject, args: Sequence[Any], seed: int) -> None:
    """Run forward and backward once on copies of the caller's example, in the example's own dtypes.

    Ignore errors in these passes, because the diagnosis reports them.
    """
    given = [value.detach() if isinstance(value, Tensor) else value for value in args]
    session = Session(subject, given, wanted(args), seed)

    def both() -> None:
        outputs = [out for out in session.run(watched=False).floats if out.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(out) for out in outputs])

    with suppress(CannotDiagnoseError):
        attempt(both)


# --------------------------------------------------------------------------------------------------
# Probe a subject on the caller's example and on similar inputs.
# --------------------------------------------------------------------------------------------------


def examine_samples(
    subject: Subject,
    args: Sequence[Any],
    sampler: Sampler | None,
    seed: int,
    extra_probes: Sequence[Probe] | None = (),
    *,
    any_output: bool,
    intentional: Collection[str] = (),
) -> list[Evidence]:
    """Return evidence from the example, then from sampled inputs or variations of the example.

    The ``extra_probes`` and the checks in other dtypes run only on the example. If ``extra_probes``
    is ``None``, both are skipped. A nan output raises :class:`CannotDiagnoseError`, because the
    expected gradient is then unknown. For calls with a reference, ``any_output`` allows nan
    outputs.
    """
    example = examine_case(subject, args, seed, extra_probes, intentional=intentional)
    if (failed := example.forward.failure) and failed.runs_in_own_dtype:
        return [example]  # evidence on float64 copies is useless for this Function
    evidence = [example]
    evidence += [
        examine_case(subject, case, seed, intentional=intentional)
        for case in _sampled(sampler, len(args), seed)
    ]
    if not any_output:
        _require_numbers(evidence)
    if sampler:
        return evidence
    evidence += _singular(subject, args, seed, intentional)
    evidence += _other_numbers(subject, args, seed, evidence[0], intentional)
    return evidence + _variation(subject, args, seed, evidence[0], intentional)


def changed_numbers(example: Evidence, evidence: Evidence) -> dict[str, tuple[float, float]]:
    """Map the name of each number that differs from the example's to its old and new values.

    The result is empty if a tensor differs too.
    """
    numbers = {}
    for position, pair in enumerate(zip(example.inputs, evidence.inputs, strict=True)):
        if isinstance(pair[0], Tensor):
            if not torch.equal(*pair):
                return {}
        elif hides_mistakes(pair[0]) and pair[0] != pair[1]:
            numbers[example.name(position)] = pair
    return numbers


def examine_case(
    subject: Subject,
    case: Sequence[Any],
    seed: int,
    extra_probes: Sequence[Probe] | None = None,
    differences: bool = True,
    own: Sequence[torch.dtype | None] = (),
    intentional: Collection[str] = (),
    explained: bool = True,
) -> Evidence:
    """Return evidence from one case.

    Without extra probes, examine only the gradients and their values.

    If ``explained`` is false, the evidence shows whether a gradient is wrong, but not why. ``own``
    holds the dtypes of the caller's inputs, if they differ from the case's dtypes.
    """
    own = own or own_dtypes(case)
    places = wanted(case)
    values = all_in_double(case, own)
    always = [probe for probe in ALWAYS if explained or probe not in EXPLAINING]
    probes, thorough = (*always, *(extra_probes or ())), extra_probes is not None
    seen = probe(
        subject,
        values,
        places,
        seed,
        probes,
        own_dtypes=own,
        intentional=intentional,
        in_other_dtypes=thorough,
        differences=differences,
    )
    subject.begin(())
    return seen


def as_given(rng: torch.Generator) -> tuple[Any, ...]:
    """Tell :func:`~autograd_doctor.diagnose` to examine only the example, if it is the ``sampler``.

    Args:
        rng: The generator from which a sampler draws.

    Returns:
        Nothing, because ``diagnose`` never calls this function.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError("as_given draws no inputs")


def _sampled(sampler: Sampler | None, count: int, seed: int) -> list[tuple[Any, ...]]:
    if sampler is None or sampler is as_given:
        return []
    rng = generator(seed, Stream.SAMPLES)
    return [_draw_sample(sampler, count, rng) for _ in range(SAMPLES)]


def _draw_sample(sampler: Sampler, count: int, rng: torch.Generator) -> tuple[Any, ...]:
    try:
        case = as_tuple(sampler(rng))
    except USERS as error:
        raise CannotDiagnoseError(
            f"the sampler raised {type(error).__name__}: {first_line(error)}"
        ) from error
    if len(case) != count:
        raise CannotDiagnoseError(
            f"the sampler drew {len(case)} inputs, but the example has {count}."
        )
    require_dense(case)
    return case


def _variation(
    subject: Subject,
    args: Sequence[Any],
    seed: int,
    example: Evidence,
    intentional: Collection[str],
) -> list[Evidence]:
    """Return evidence from random inputs like the example's, if ``forward`` is defined for them.

    If ``forward`` has a kink at the example, the random inputs lie close to the kink, but not on
    it.
    """
    rng = generator(seed, Stream.VARIATIONS)
    kinks = dict(zip(example.wanted, kinks_in(example), strict=False))
    for _ in range(DRAWS):
        case = [beside(v, kinks.get(i), rng) for i, v in enumerate(varied(args, rng))]
        evidence = examine_case(subject, case, seed, own=own_dtypes(args), intentional=intentional)
        if not evidence.forward.failure and not _nan_output(evidence):
            return [evidence]
    return []


def _singular(
    subject: Subject, args: Sequence[Any], seed: int, intentional: Collection[str]
) -> list[Evidence]:
    """Return evidence from the example with zeros, ones and equal elements, if its range allows
    them.
    """
    case = singular(args, generator(seed, Stream.SINGULAR))
    pairs = zip(args, case, strict=True)
    if not any(one is not other and not torch.equal(one, other) for one, other in pairs):
        return []
    evidence = examine_case(subject, case, seed, own=own_dtypes(args), intentional=intentional)
    return [evidence] if _is_defined(evidence) else []


def _other_numbers(
    subject: Subject,
    args: Sequence[Any],
    seed: int,
    example: Evidence,
    intentional: Collection[str],
) -> list[Evidence]:
    """If the Function accepts other numbers, return evidence from the example with other numbers.

    If only ``backward`` depends on a number, the diagnosis assumes that the number is a deliberate
    choice and does not change it. Examples are the strength of a gradient reversal and a small
    number that keeps a gradient finite.
    """
    case = with_other_numbers(args)
    for position, (one, other) in enumerate(zip(args, case, strict=True)):
        if one is not other and not _matters(subject, example, position, other, seed):
            case = (*case[:position], one, *case[position + 1 :])
    if not any(one is not other for one, other in zip(args, case, strict=True)):
        return []
    evidence = examine_case(subject, case, seed, own=own_dtypes(args), intentional=intentional)
    direct = evidence.contract.direct
    failed = direct is not None and direct.failure is not None
    return [evidence] if _is_defined(evidence) and not failed else []


def _matters(subject: Subject, example: Evidence, position: int, number: float, seed: int) -> bool:
    """Return whether another number for one argument changes the outputs of ``forward``."""
    args = [*example.inputs]
    args[position] = number
    run = attempt(lambda: Session(subject, args, (), seed).run(watched=False))
    if isinstance(run, Failure):
        return True
    before = example.forward.outputs
    return len(run.tensors) != len(before) or not all(
        one.shape == other.shape and torch.equal(one, other)
        for one, other in zip(run.tensors, before, strict=True)
    )


def _is_defined(evidence: Evidence) -> bool:
    """Return whether ``forward`` ran without an error and returned only finite values."""
    finite = all(bool(torch.isfinite(out).all()) for out in evidence.forward.outputs)
    return finite and not evidence.forward.failure


def kinks_in(evidence: Evidence) -> Iterator[Tensor]:
    """For each wanted input, yield the flat indices at which ``forward`` has a kink."""
    for position, columns in zip(evidence.wanted, evidence.values.jacobian, strict=False):
        pairs = 2 if evidence.inputs[position].is_complex() else 1
        yield (columns.index[~columns.smooth] // pairs).unique()


def _require_numbers(evidence: Sequence[Evidence]) -> None:
    """Raise an error if ``forward`` returns nan, because the expected gradient is then unknown."""
    for seen in evidence:
        if place := _nan_output(seen):
            raise CannotDiagnoseError(
                f"forward of {seen.subject} returned nan ({place}): pass inputs inside its "
                "domain, or pass a reference= that defines the right values there."
            )


def _nan_output(evidence: Evidence) -> str:
    """Return the output and the index of the first nan that ``forward`` returns, or ``""``."""
    for k, output in enumerate(evidence.forward.outputs):
        if is_float(output) and bool(torch.isnan(output).any()):
            return f"output {k}, index {torch.isnan(output).nonzero()[0].tolist()}"
    return ""
