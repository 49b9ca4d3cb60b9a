"""``diagnose``: examine a Function, and say what is wrong with it by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor

from autograd_course.doctor._coverage import examined, unexamined
from autograd_course.doctor._execution.calls import passes_within, prepare
from autograd_course.doctor._execution.captured_state import CapturedState
from autograd_course.doctor._execution.isolation import preserve_global_state, show_output_once
from autograd_course.doctor._execution.session import Subject, subject_of
from autograd_course.doctor._inputs import require_dense, require_initialized, require_room
from autograd_course.doctor._numerics.tensors import as_tuple
from autograd_course.doctor._options import (
    require_callables,
    require_numbers,
    require_settings,
    rules_named,
)
from autograd_course.doctor._pipeline import (
    Case,
    Sampler,
    avoided_kinks,
    blind_spots,
    collect_evidence,
    conclude,
    ordinary_pass,
    unjudged,
)
from autograd_course.doctor._probes import Level, probes_for
from autograd_course.doctor._report.five_steps import steps_of
from autograd_course.doctor._report.jacobians import choose_jacobians
from autograd_course.doctor._safe_repr import first_line
from autograd_course.doctor.diagnosis import Diagnosis
from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence


def diagnose(
    fn: Any,
    inputs: Any,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    double_backward: bool | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    level: Level = "standard",
    time_limit: float = 30.0,
) -> Diagnosis:
    """Examine a custom autograd Function and name what is wrong with it.

    ``fn`` is a :class:`torch.autograd.Function` subclass (its ``apply`` is used) or any callable
    built on some. ``inputs`` are the example call's arguments, tensors and others, as for
    :func:`torch.autograd.gradcheck`; one tensor may stand alone. Every floating or complex tensor
    is differentiated, or, where some require grad, those alone. Work is done on float64 copies.

    ``reference`` is a differentiable callable with the same arguments: its outputs and its own
    autograd are the truth. Without it the truth comes from central differences of ``fn``'s forward.
    ``surrogate`` is a differentiable callable whose derivative ``fn``'s backward is declared to be
    (a straight-through estimator). ``intentional`` holds names of rules that are broken by design.
    It turns these off and nothing else. What cannot be examined then is in
    ``Diagnosis.unexamined``, and ``Diagnosis.ok`` is not ``True``.
    ``sampler`` draws other inputs, ``rng -> inputs``; without it the example is varied where it is
    differentiated.

    ``double_backward=True`` says that second derivatives are meant to work: where they do not, that
    is an error. ``False`` says that they are not, and nothing is said of them.

    ``level="full"`` also asks what is slow to find out or only worth knowing (torch.compile, …).

    An error is reported only if a second run, on fresh random inputs, shows it too. Raises
    :class:`DoctorError` for arguments it cannot examine, and where one pass of ``fn`` takes longer
    than ``time_limit`` seconds (0: no limit) or more memory than there is. The caller's tensors,
    random state, default dtype and grad mode are left as they were, and so is what ``fn`` reaches
    besides its arguments: modules with their buffers, captured tensors, attributes, containers.
    What ``fn`` prints is shown once: the output of one forward and one backward pass on ``inputs``.
    """
    args = as_tuple(inputs)
    designed = rules_named(intentional)
    require_callables(reference=reference, surrogate=surrogate, sampler=sampler)
    require_settings(level, seed, time_limit, double_backward)
    require_numbers()
    require_initialized(fn)
    require_dense(args)
    require_room(args)
    with _own_faults_told():
        prepare()
        subject = _with_surroundings(subject_of(fn, len(args)), args, reference, surrogate, sampler)
        case = Case(subject, args, sampler, reference, surrogate, designed, level, double_backward)
        with (
            preserve_global_state(seed),
            subject.around.lent(),
            passes_within(time_limit),
            show_output_once(lambda: ordinary_pass(subject, args, seed)),
        ):
            done = conclude(case, seed, seed + 1)
        findings, evidence = done.findings, done.evidence
        if (why := unjudged(findings, evidence)) is not None:
            raise why
        missing = tuple(unexamined(evidence, designed))
        remarks = (*avoided_kinks(evidence[0]), *(() if sampler else blind_spots(evidence[0])))
        return Diagnosis(
            case.subject.name,
            findings,
            examined=(*examined(level, evidence, designed, missing), *remarks),
            unexamined=missing,
            jacobians=choose_jacobians(findings, done.verdicts, evidence),
            steps=steps_of(evidence[0]),
        )


def look(
    fn: Any,
    inputs: Sequence[Any],
    *,
    double_backward: bool | None = None,
    thorough: bool = True,
    seed: int = 0,
    time_limit: float = 30.0,
) -> list[Evidence]:
    """Run a Function as :func:`diagnose` does; return what was seen, without truth or verdict.

    Unless ``thorough``, nothing beyond gradients and their values is looked at.
    """
    with _own_faults_told():
        prepare()
        subject = _with_surroundings(subject_of(fn, len(inputs)), inputs)
        extra_probes = probes_for("standard", double_backward) if thorough else None
        with preserve_global_state(seed), subject.around.lent(), passes_within(time_limit):
            return collect_evidence(subject, inputs, None, seed, extra_probes, any_output=True)


def _with_surroundings(subject: Subject, args: Sequence[Any], *others: Any) -> Subject:
    """Return the subject with all that it, its arguments and other callables reach."""
    named = zip(subject.parameters, args, strict=True)
    hidden = [(name, value) for name, value in named if not isinstance(value, Tensor)]
    root = (subject.name, subject.function) if subject.function else ("self", subject.call)
    around = CapturedState(root, *hidden, *(("", other) for other in others))
    return replace(subject, around=around, passed=around.passed(args))


@contextmanager
def _own_faults_told() -> Iterator[None]:
    """Turn whatever goes wrong in the doctor itself into one sentence; it is never a verdict."""
    try:
        yield
    except DoctorError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {first_line(error)}"
        raise DoctorError(f"diagnose itself failed: {told}") from error
