"""``diagnose`` and ``assert_gradients``, which examine a Function and name its mistakes."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor
from torch.autograd import Function

from autograd_doctor._collect import (
    Sampler,
    capture_state,
    ordinary_pass,
    report_own_faults,
)
from autograd_doctor._coverage import (
    avoided_kinks,
    blind_spots,
    coarse_values,
    examined,
    kept_structures,
    unexamined,
    without_cpu,
    without_half,
    without_some_calls,
    without_time,
)
from autograd_doctor._declaration import declaration_of
from autograd_doctor._execution.calls import passes_within, prepare
from autograd_doctor._execution.inner_calls import calls_in_backward
from autograd_doctor._execution.isolation import (
    one_thread_if_small,
    preserve_global_state,
    show_output_once,
)
from autograd_doctor._execution.session import Session, subject_of
from autograd_doctor._inputs import (
    all_in_double,
    require_dense,
    require_eager,
    require_initialized,
    require_room,
    wanted,
)
from autograd_doctor._interception import paused
from autograd_doctor._numerics.tensors import as_tuple
from autograd_doctor._options import (
    require_callables,
    require_numbers,
    require_settings,
    rules_named,
)
from autograd_doctor._pipeline import (
    VALUE_FAMILIES,
    Case,
    Conclusion,
    conclude,
    has_error,
)
from autograd_doctor._probes import Level
from autograd_doctor._probes.core import agrees_for, choose_precision
from autograd_doctor._repair.verification import find_clue, find_repair, with_search
from autograd_doctor._report.five_steps import steps_of
from autograd_doctor._rules import RULES
from autograd_doctor.diagnosis import Diagnosis
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import RANDOM, Evidence
from autograd_doctor.finding import Clue, Finding
from autograd_doctor.repair import Repair

Examinable = type[Function] | Callable[..., Any]
"""The first argument of ``diagnose``: a Function class, or a callable that calls Functions."""

Inputs = Tensor | Sequence[Any]
"""The arguments of one call. A single tensor need not be wrapped in a tuple."""


def diagnose(
    fn: Examinable,
    inputs: Inputs,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    double_backward: bool | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    level: Level = "standard",
    time_limit: float = 30.0,
    repair: bool = True,
) -> Diagnosis:
    """Examine a custom autograd Function and name its mistakes.

    The expected gradient for an upstream gradient ``g`` is the vector-Jacobian product ``Jᵀ g``,
    where ``J`` is the Jacobian of ``forward``. For complex inputs, it is ``Jᴴ g``. ``diagnose``
    computes it by central differences in float64 with Richardson extrapolation, or by autograd on
    ``reference`` or ``surrogate``. ``diagnose`` reports an error only if a second run on new random
    inputs shows the error again.

    ``diagnose`` works on float64 copies. Afterwards, it restores the caller's tensors, random
    state, default dtype and grad mode. It also restores all other state that ``fn`` can reach:
    modules with their buffers, captured tensors, attributes and containers. It shows what ``fn``
    prints during one forward and one backward pass with ``inputs``.

    For a correct Function with one input of any size, ``diagnose`` runs about 90 forward and 70
    backward passes at level ``"standard"``. At level ``"full"``, it runs about 120 forward and 80
    backward passes. For a wrong Function, it also computes the Jacobian column by column. This
    takes about 420 forward passes for 12 elements, and 4,300 for 1,200 or more elements.

    Args:
        fn: A :class:`torch.autograd.Function` subclass, which ``diagnose`` calls through ``apply``,
            or any callable that calls Functions.
        inputs: The arguments of one example call: tensors of any shape and other values, as for
            :func:`torch.autograd.gradcheck`. A single tensor need not be wrapped in a tuple.
            ``diagnose`` differentiates all floating-point and complex tensors. If some of them
            require grad, it differentiates only those.
        reference: A differentiable callable with the same arguments. It returns the expected
            outputs, and its gradients are the expected gradients.
        surrogate: A differentiable callable with the same arguments. ``backward`` is meant to
            return its gradient, as a straight-through estimator does.
        intentional: The names of the rules that ``fn`` breaks by design. ``diagnose`` turns off
            only these rules. If you pass neither ``intentional`` nor ``surrogate``, ``diagnose``
            uses the Function's own declaration, made with :func:`declare`.
        double_backward: ``True`` reports wrong second derivatives as errors. ``False`` skips second
            derivatives. By default, ``diagnose`` examines them and reports problems only as notes.
        sampler: A callable that draws different inputs from a :class:`torch.Generator`. By default,
            ``diagnose`` varies the differentiated inputs of the example.
        seed: The seed for all random numbers that ``diagnose`` draws.
        level: ``"full"`` adds slow checks, such as ``torch.compile`` and autocast, and checks whose
            results are purely informative.
        time_limit: The time limit in seconds for one forward or backward pass. 0 means no limit.
        repair: Whether the diagnosis searches for a repair when you first access its
            :attr:`~Diagnosis.repair`.

    Returns:
        The diagnosis. Its ``ok`` is ``True`` or ``False``. If ``diagnose`` could not examine some
        gradients, ``ok`` is ``None``, and ``unexamined`` gives the reason. Its ``findings`` name
        the bugs, starting with the root cause.

    Raises:
        CannotDiagnoseError: ``diagnose`` cannot examine the arguments, or a pass exceeds
            ``time_limit`` or the available memory.

    Example:
        >>> import torch
        >>> from autograd_doctor import diagnose
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad_output):
        ...         (x,) = ctx.saved_tensors
        ...         return x * grad_output
        >>> diagnosis = diagnose(Square, torch.tensor([1.0, -2.0, 3.0]))
        >>> diagnosis.ok
        False
        >>> print(diagnosis.findings[0].rule, "·", diagnosis.findings[0].message)
        constant-factor · the gradient of `x` is 1/2 times the true gradient.
    """
    declared = None if surrogate or intentional else declaration_of(fn)
    if declared:
        surrogate, intentional = declared.surrogate, declared.intentional
    args = as_tuple(inputs)
    designed = rules_named(intentional)
    require_callables(reference=reference, surrogate=surrogate, sampler=sampler)
    require_settings(level, seed, time_limit, double_backward)
    require_numbers()
    require_initialized(fn)
    require_eager(fn=fn, reference=reference, surrogate=surrogate)
    require_dense(args)
    require_room(args)
    with report_own_faults(), paused():
        prepare()
        subject = capture_state(subject_of(fn, len(args)), args, reference, surrogate, sampler)
        case = Case(subject, args, sampler, reference, surrogate, designed, level, double_backward)
        with (
            preserve_global_state(seed),
            one_thread_if_small(args, all_known=subject.function is not None),
            subject.around.borrow(),
            passes_within(time_limit),
            show_output_once(lambda: ordinary_pass(subject, args, seed)),
        ):
            case = replace(case, subject=choose_precision(subject, args, seed))
            done = conclude(case, seed, seed + 1)
        done.require_gradient()
        told = done if sampler else done.with_errors_elsewhere_as_warnings()
        findings, evidence = told.findings, done.evidence
        inner = _inside_backward(case, done, seed, time_limit, repair=repair)
        missing = tuple(unexamined(evidence, designed))
        remarks = (
            *kept_structures(evidence),
            *coarse_values(evidence),
            *avoided_kinks(evidence[0]),
            *without_time(evidence[0]),
            *without_cpu(evidence[0]),
            *without_some_calls(evidence[0]),
            *without_half(args),
            *(() if sampler else blind_spots(evidence)),
        )
        search = partial(_repaired, case, findings, evidence, seed, time_limit)
        trace = partial(_traced, case, evidence, seed, time_limit)
        return Diagnosis(
            case.subject.name,
            inner or (tuple(with_search(findings, search, trace, level)) if repair else findings),
            examined=(*examined(level, evidence, designed, missing), *remarks),
            limits=remarks,
            level=level,
            unexamined=missing,
            jacobians=done.jacobians(),
            steps=steps_of(evidence[0]),
        )


def _inside_backward(
    case: Case, done: Conclusion, seed: int, time_limit: float, *, repair: bool
) -> tuple[Finding, ...]:
    """Return the findings if a second derivative is wrong because of a Function in ``backward``.

    The author wrote the ``backward`` of this other Function to support second derivatives. If it is
    wrong, the finding is an error even if the user does not request second derivatives.
    """
    silent = [it for it in done.findings if it.rule == "silent-double-backward"]
    others = tuple(it for it in done.findings if it not in silent)
    if has_error(others) or not silent or {"lost", "function"}.intersection(silent[0].evidence):
        return ()
    first = done.evidence[0]
    with case.subject.around.borrow(), passes_within(time_limit), preserve_global_state(seed):
        session = Session(case.subject, first.inputs, first.wanted, seed)
        calls = calls_in_backward(session, first.values.vjps[RANDOM].grad_outputs)
    for call in calls:
        function, args = call.function, call.args
        if declaration_of(function):
            continue
        subject = capture_state(subject_of(function, len(args)), args)
        inner = Case(subject, args, None, None, None, (), "standard", False)
        with (
            preserve_global_state(seed),
            subject.around.borrow(),
            passes_within(time_limit),
            suppress(CannotDiagnoseError),
        ):
            found = conclude(inner, seed, seed + 1)
            if not found.has_error or RULES[found.findings[0].rule].family not in VALUE_FAMILIES:
                continue
            search = partial(_repaired, inner, found.findings, found.evidence, seed, time_limit)
            trace = partial(_traced, inner, found.evidence, seed, time_limit)
            error, *_ = with_search(found.findings, search, trace, "standard")
            said = f"`backward` applies `{subject.name}`, whose own `backward` is wrong: "
            told = replace(error, message=said + error.message, lesson=silent[0].lesson)
            return (told if repair else replace(told, search=None, trace=None), *others)
    return ()


def _repaired(
    case: Case,
    findings: Sequence[Finding],
    evidence: Sequence[Evidence],
    seed: int,
    time_limit: float,
    finding: Finding,
    others: Mapping[str, Sequence[Any]] | None = None,
) -> Repair | None:
    """Search for a repair with the diagnosis's settings, and hide the code's output."""
    with _as_diagnosed(case, seed, time_limit):
        return find_repair(case, findings, evidence, seed, finding, others)
    return None


def _traced(
    case: Case, evidence: Sequence[Evidence], seed: int, time_limit: float, finding: Finding
) -> Clue | None:
    """Find a clue to a wrong gradient, using the diagnosis's settings."""
    with _as_diagnosed(case, seed, time_limit):
        return find_clue(case, evidence, seed, finding)
    return None


@contextmanager
def _as_diagnosed(case: Case, seed: int, time_limit: float) -> Iterator[None]:
    """Run the block with the diagnosis's settings, and hide the code's output and errors."""
    try:
        with (
            paused(),
            preserve_global_state(seed),
            one_thread_if_small(case.args, all_known=case.subject.function is not None),
            case.subject.around.borrow(),
            passes_within(time_limit),
            redirect_stdout(io.StringIO()),
        ):
            yield
    except Exception:  # a report without a repair is better than no report
        logging.getLogger(__name__).debug("The search for a repair failed.", exc_info=True)


def assert_gradients(
    fn: Examinable,
    inputs: Inputs,
    *,
    warnings: bool = False,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    double_backward: bool | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    level: Level = "standard",
    time_limit: float = 30.0,
) -> Diagnosis:
    """Fail with the report of :func:`~autograd_doctor.diagnose` if a Function is wrong.

    The assertion also fails if ``diagnose`` could not examine the gradients. It takes as long as
    ``diagnose``.

    Args:
        fn: A Function class, or any callable that calls Functions.
        inputs: The arguments of one example call. A single tensor need not be wrapped in a tuple.
        warnings: Whether a warning also counts as a failure.
        reference: As for ``diagnose``.
        surrogate: As for ``diagnose``.
        intentional: As for ``diagnose``.
        double_backward: As for ``diagnose``.
        sampler: As for ``diagnose``.
        seed: As for ``diagnose``.
        level: As for ``diagnose``.
        time_limit: As for ``diagnose``.

    Returns:
        The diagnosis. Its ``ok`` is ``True``.

    Raises:
        WrongGradientError: The Function is wrong, or ``diagnose`` could not examine its gradients.
            This exception is an ``AssertionError`` whose message is the report. Its ``diagnosis``
            attribute holds the diagnosis.
        CannotDiagnoseError: The arguments cannot be examined.

    Example:
        >>> import torch
        >>> from autograd_doctor import assert_gradients
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad_output):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad_output
        >>> assert_gradients(Square, torch.randn(3, 4, dtype=torch.float64)).ok
        True
    """
    __tracebackhide__ = True  # pytest shows the test's own line and hides ours
    try:
        diagnosis = diagnose(
            fn,
            inputs,
            reference=reference,
            surrogate=surrogate,
            intentional=intentional,
            double_backward=double_backward,
            sampler=sampler,
            seed=seed,
            level=level,
            time_limit=time_limit,
        )
    except CannotDiagnoseError as refused:
        raise refused.with_traceback(None) from refused.__cause__
    diagnosis.raise_if_wrong(warnings=warnings)
    return diagnosis


def is_right_for(
    fn: Callable[..., Any], inputs: Sequence[Any], grad_outputs: Sequence[Tensor | None]
) -> bool:
    """Return whether the gradients for these cotangents are correct. Ignore other cotangents.

    Args:
        fn: A Function or a custom operator.
        inputs: The arguments of one call.
        grad_outputs: One cotangent for each tensor that the call returns.

    Returns:
        Whether the gradients agree with finite differences of ``forward``, in float64 or in the
        inputs' own dtypes. The two results can differ if the problem has several solutions and
        float64 selects a different one, such as an eigenvector with the opposite sign. The
        cotangents then belong to the solution that the call returned.
    """
    with report_own_faults(), paused():
        prepare()
        subject = capture_state(subject_of(fn, len(inputs)), inputs)
        with preserve_global_state(0), subject.around.borrow():
            as_called = replace(subject, in_float64=False), list(inputs)
            in_double = choose_precision(subject, inputs, 0), all_in_double(inputs)
            return any(
                agrees_for(Session(each, values, wanted(inputs), 0), grad_outputs)
                for each, values in (in_double, as_called)
            )
