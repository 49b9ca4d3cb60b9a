"""One diagnosis, from the caller's inputs to the findings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor._execution.calls import USERS, attempt
from autograd_course.doctor._execution.inside import functions_inside
from autograd_course.doctor._execution.isolation import Stream, generator
from autograd_course.doctor._execution.session import Session, Subject, subject_of
from autograd_course.doctor._inputs import (
    SPREADS,
    beside,
    in_double,
    own_dtypes,
    require_dense,
    varied,
    wanted,
)
from autograd_course.doctor._judge import RANK, judge
from autograd_course.doctor._numerics.tensors import as_tuple, is_float, is_plain
from autograd_course.doctor._probes import ALWAYS, OF_THE_WHOLE, PROBES, Level, Probe, probes_for
from autograd_course.doctor._probes.core import probe
from autograd_course.doctor._reference import establish
from autograd_course.doctor._rules import RULES
from autograd_course.doctor._safe_repr import first_line
from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.finding import Finding

# --------------------------------------------------------------------------------------------------
# One forward and one backward pass as the caller would make them.
# --------------------------------------------------------------------------------------------------


def ordinary_pass(subject: Subject, args: Sequence[Any], seed: int) -> None:
    """Run forward and backward once on copies of the caller's example, in its own dtypes.

    Whatever they raise is left to the diagnosis.
    """
    given = [value.detach() if isinstance(value, Tensor) else value for value in args]
    session = Session(subject, given, wanted(args), seed)

    def both() -> None:
        outputs = [out for out in session.run(watched=False).floats if out.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(out) for out in outputs])

    with suppress(DoctorError):
        attempt(both)


# --------------------------------------------------------------------------------------------------
# Probe a subject on the caller's example and on other inputs like it.
# --------------------------------------------------------------------------------------------------

Sampler = Callable[[torch.Generator], Sequence[Any]]

SAMPLES = 2  # drawn from a sampler, beside the example


def collect_evidence(
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


def avoided_kinks(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each input where the example lies on kinks and others were taken."""
    for position, kinks in zip(evidence.wanted, _kinks(evidence), strict=False):
        if len(kinks):
            total = evidence.inputs[position].numel()
            yield (
                f"`{evidence.name(position)}` near kinks: `forward` is not differentiable at "
                f"{len(kinks)} of its {total} elements, so these were moved slightly"
            )


def blind_spots(evidence: Evidence) -> Iterator[str]:
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


# --------------------------------------------------------------------------------------------------
# From the findings on several inputs to one verdict, which a second run must confirm.
# --------------------------------------------------------------------------------------------------

Findings = tuple[Finding, ...]

# What is asked of the Functions inside a callable. Their values are judged by the callable's own:
# a surrogate, a scale or a mask around them may be what makes them right.
ASKED_INSIDE = ("contract", "layout", "state", "efficiency")
OF_VALUES = ("linearity", "values")  # the families that are judged by gradients alone


def has_error(findings: Findings) -> bool:
    """Whether a finding is an error."""
    return any(finding.severity == "error" for finding in findings)


def clearest(verdicts: Sequence[Findings]) -> Findings:
    """Return one verdict of several, the first of which is on the caller's example.

    Of wrong values, random inputs hide less than an example. But where the example shows the same,
    its own element is the one that the caller knows, and only there causes beyond values are asked
    for.
    """
    wrong = [findings for findings in verdicts if has_error(findings)]
    if not wrong:
        told = {f.rule: f for findings in reversed(verdicts) for f in findings}
        return tuple(sorted(told.values(), key=_place))
    if wrong[0] is verdicts[0] and RULES[wrong[0][0].rule].family not in OF_VALUES:
        return wrong[0]
    return next(v for v in wrong if v[0].rule == wrong[-1][0].rule)


def conclude(
    verdicts: Sequence[Findings],
    again: Callable[[bool], Sequence[Findings]],
    without: Callable[[Collection[str]], Sequence[Findings]],
) -> Findings:
    """Return the clearest verdict; of its errors, those that a run on other inputs confirms.

    ``again`` makes that run; it is told whether it has to look closely, beyond values. ``without``
    judges the first one once more, some rules left out: an error that does not stand explains
    nothing, and what it seemed to explain is still to be told.
    """
    found = clearest(verdicts)
    if not has_error(found):
        return found
    errors = _errors(verdicts)
    second = again(any(RULES[name].family not in OF_VALUES for name in errors))
    left = clearest([keep_confirmed(findings, second) for findings in verdicts])
    if has_error(left):
        return left
    others = without(_and_their_like(errors))
    return clearest([keep_confirmed(findings, second) for findings in others])


def _errors(verdicts: Sequence[Findings]) -> set[str]:
    """Return the names of all errors."""
    return {f.rule for findings in verdicts for f in findings if f.severity == "error"}


def _and_their_like(names: Collection[str]) -> set[str]:
    """Return rules with those that would tell the same wrong gradient by another name."""
    families = {RULES[name].family for name in names}.intersection(OF_VALUES)
    errors = (rule for rule in RULES.values() if rule.severity == "error")
    return {*names, *(rule.name for rule in errors if rule.family in families)}


def unjudged(found: Findings, seen: Sequence[Evidence]) -> DoctorError | None:
    """Return why nothing found says nothing: no gradient was there to be asked for."""
    raw, failed = seen[0].raw, seen[0].forward.failure
    if found or any(evidence.pulls for evidence in seen) or failed or (raw and raw.failure):
        return None
    return DoctorError(
        f"no output of {seen[0].subject} is differentiable, so there is no gradient to check."
    )


def keep_confirmed(found: Findings, again: Sequence[Findings]) -> Findings:
    """Return what was found, without the errors that another run shows nothing like.

    Other random inputs may give the same mistake another name of the same family.
    """
    families = {RULES[name].family for name in _errors(again)}
    return tuple(f for f in found if f.severity != "error" or RULES[f.rule].family in families)


def combine_findings(outside: Findings, inside: Findings) -> Findings:
    """Return what was found on a callable with what was found on the Functions inside it.

    Each side's errors explain findings of the other; what both show is told by the inside, which
    knows the names.
    """
    asked = (f for f in inside if RULES[f.rule].family in ASKED_INSIDE)
    new = tuple(f for f in asked if not _explained(f, outside))
    told = {finding.rule for finding in new}
    left = tuple(f for f in outside if f.rule not in told and not _explained(f, new))
    return tuple(sorted((*left, *new), key=_place))


def _explained(finding: Finding, by: Findings) -> bool:
    errors = {f.rule for f in by if f.severity == "error"}
    causes = errors | {RULES[name].family for name in errors}
    rule = RULES[finding.rule]
    explained = {what for name in errors for what in RULES[name].explains}
    return bool(causes.intersection(rule.after) or explained & {rule.name, rule.family})


def _place(finding: Finding) -> tuple[int, int]:
    return RANK[finding.severity], list(RULES).index(finding.rule)


# --------------------------------------------------------------------------------------------------
# One question to the doctor: what to examine, on what, and what is known of it.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The subject, the caller's example, and what is declared of the subject."""

    subject: Subject
    args: tuple[Any, ...]
    sampler: Sampler | None
    reference: Callable[..., Any] | None
    surrogate: Callable[..., Any] | None
    intentional: Collection[str]
    level: Level
    double_backward: bool | None

    def examined(self, seed: int, *, closely: bool = True) -> list[Evidence]:
        """Run the subject on the example and on others, and put the truth beside what was seen.

        Unless ``closely``, nothing beyond gradients and their values is looked at.
        """
        seen = collect_evidence(
            self.subject,
            self.args,
            self.sampler,
            seed,
            self._further if closely else None,
            any_output=self.reference is not None,
            intentional=self.intentional,
        )
        return [establish(evidence, self.reference, self.surrogate, seed) for evidence in seen]

    @property
    def _further(self) -> tuple[Probe, ...]:
        return probes_for(self.level, self.double_backward)

    @property
    def _further_inside(self) -> tuple[Probe, ...]:
        return tuple(probe for probe in PROBES[self.level] if probe not in OF_THE_WHOLE)

    def judged(
        self, seen: Sequence[Evidence], seed: int, unasked: Collection[str] = ()
    ) -> list[Findings]:
        """Return the findings on each evidence, those on Functions inside with the example's."""
        example, *others = [judge(evidence, self.intentional, unasked) for evidence in seen]
        if self.subject.function is None:
            inside = tuple(self._inside(seen[0], seed, unasked, differences=has_error(example)))
            example = combine_findings(example, inside)
        return [example, *others]

    def judged_anew(self, seed: int, closely: bool) -> list[Findings]:
        """Return the findings of another run, on fresh random inputs."""
        return self.judged(self.examined(seed, closely=closely), seed)

    def _inside(
        self, example: Evidence, seed: int, unasked: Collection[str], *, differences: bool
    ) -> Iterator[Finding]:
        """Yield what is found on the Functions that a callable calls, under their names.

        Where the callable's gradients are right, so are theirs, for what it sends them: differences
        would cost much, as of a solver, and tell nothing.
        """
        session = Session(self.subject, example.inputs, example.wanted, seed)
        around = self.subject.around
        for call in list(functions_inside(session.run, around)):
            # What an argument holds cannot be copied along; but what is reached anyway is lent.
            if not all(is_plain(arg) or around.covers(arg) for arg in call.args):
                continue
            with contextlib.suppress(DoctorError):  # its own arguments may lie beyond examining
                inner = subject_of(call.function, len(call.args))
                inner = replace(inner, around=around, passed=call.passed)
                evidence = on_example(
                    inner,
                    call.args,
                    seed,
                    self._further_inside,
                    differences=differences,
                    own=self._own_dtypes(call.args),
                    intentional=self.intentional,
                )
                known = establish(evidence, None, None, seed)
                for found in judge(known, self.intentional, unasked):
                    yield _named(found, call.function.__name__)

    def _own_dtypes(self, args: Sequence[Any]) -> tuple[torch.dtype | None, ...]:
        """Return the dtypes that the Functions inside get when the caller makes the call.

        That is known where all the caller's floating tensors have one precision.
        """
        precisions = {v.dtype.to_real() for v in self.args if is_float(v)}
        if len(precisions) != 1:
            return ()
        real = precisions.pop()
        return tuple(
            None if not is_float(v) else real.to_complex() if v.is_complex() else real for v in args
        )


def _named(found: Finding, function: str) -> Finding:
    message = f"in `{function}`, {found.message}"
    return replace(found, message=message, evidence={**found.evidence, "function": function})
