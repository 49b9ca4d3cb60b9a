"""One question to the doctor: what to examine, on what, and what is known of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.examination import Sampler, examine, on_example
from autograd_course.doctor.finding import Finding
from autograd_course.doctor.judge import judge
from autograd_course.doctor.probes import OF_THE_WHOLE, PROBES, Level, Probe, probes_for
from autograd_course.doctor.running.calls import is_float, is_plain
from autograd_course.doctor.running.inside import functions_inside
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.running.subject import Subject, subject_of
from autograd_course.doctor.truth.expected import establish
from autograd_course.doctor.verdict import Findings, has_error, together


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
        seen = examine(
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
            example = together(example, inside)
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
