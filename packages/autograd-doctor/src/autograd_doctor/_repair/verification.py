"""Verify a repair by diagnosing the edited Function on inputs that the search did not use."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice, tee
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._collect import changed_numbers
from autograd_doctor._execution.calls import USERS, attempt, subclass_of
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.session import Session, subject_of
from autograd_doctor._execution.time_limit import TimeUp, time_limit
from autograd_doctor._inputs import with_other_numbers
from autograd_doctor._numerics.tensors import as_tuple, is_float, is_number, on_cpu
from autograd_doctor._pipeline import (
    FORWARD_RULES,
    VALUE_FAMILIES,
    Case,
    Findings,
    and_their_like,
    conclude,
    has_error,
)
from autograd_doctor._probes.comparison import as_ordinary_code
from autograd_doctor._probes.values import with_other_length
from autograd_doctor._repair.contract import FIXES
from autograd_doctor._repair.mistaken_step import find_mistaken_step
from autograd_doctor._repair.recorded_forward import Record, RecordedForward
from autograd_doctor._repair.runner import InProcess, edited, graph_of
from autograd_doctor._repair.search import search
from autograd_doctor._repair.source import method_of
from autograd_doctor._repair.wrong_value import find_wrong_value
from autograd_doctor._rules import RULES
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import Evidence, Failure
from autograd_doctor.finding import Clue, Finding
from autograd_doctor.formatting import listed, sentence
from autograd_doctor.jacobians import Jacobians, compute_jacobians
from autograd_doctor.memory import DispatchMode, operation_name
from autograd_doctor.repair import Repair

EXAMPLE = "your example"
OTHER_VALUES = "other values"
SECONDS = 0.8  # CPU time for search and verification together
SECONDS_OF_A_CLUE = 0.1  # CPU time to record forward, and then for each way to find a clue
SMALL = 1e-3  # a smaller number may be a solver's tolerance
LENGTH_1 = "length 1"
LENGTHS = 4  # maximum number of lengths to change, one at a time


def with_search(
    findings: Sequence[Finding],
    search: Callable[..., Repair | None],
    trace: Callable[..., Clue | None],
    level: str,
) -> Iterator[Finding]:
    """Yield the findings, and attach a search to each finding that might have a repair.

    If there are several errors, attach a search only to the first error, because the others may be
    consequences of it. If the first error is about wrong values, also attach a trace.
    """
    first = next((found for found in findings if found.severity == "error"), None)
    # A gradient of 0 would be correct for a step function, but no author wants that.
    undeclared = any(found.rule == "undeclared-surrogate" for found in findings)
    for found in findings:
        told = found.severity == "warning" or level == "full"
        if not undeclared and (found is first or (not first and told and found.rule in FIXES)):
            of_values = found is first and RULES[found.rule].family == "values"
            traced = partial(trace, found) if of_values else None
            yield replace(found, search=partial(search, found), trace=traced)
        else:
            yield found


Calls = Mapping[str, Sequence[Any]]
"""A mapping from descriptions of calls to the arguments of these calls."""


def find_repair(
    case: Case,
    findings: Sequence[Finding],
    seen: Sequence[Evidence],
    seed: int,
    finding: Finding,
    others: Calls | None = None,
) -> Repair | None:
    """Return the change that removes a finding, or ``None`` if none is found in time.

    The search runs edits on CPU copies of the inputs, because an edit can make an index invalid. On
    a GPU, an invalid index makes every later GPU call in the process fail.

    Args:
        case: The diagnosed case.
        findings: The findings of the diagnosis.
        seen: The evidence, with the expected gradients.
        seed: The seed of the diagnosis.
        finding: The finding to repair.
        others: Other calls whose gradients must also be correct. By default, these are variations
            of the example.
    """
    function = case.subject.function
    if function is None:
        return None
    told = dict(_other_inputs(case, seed)) if others is None else others
    others = {**told, **dict(_more_inputs(case, seed, lengths=others is not None))}
    if any(on_cpu(value) is not value for value in case.args):
        case = _on_cpu(case)
        seen = case.collect(seed, thorough=False)
        others = {what: tuple(map(on_cpu, args)) for what, args in others.items()}
        found = find_repair(case, findings, seen, seed, finding, others)
        return found and _renamed(found, "your example on the CPU")
    if numbers := finding.evidence.get("numbers"):
        args, case = case.args, replace(case, args=with_other_numbers(case.args))
        seen = [each for each in seen if changed_numbers(seen[0], each)]
        finding = replace(finding, evidence={**finding.evidence, "numbers": {}})
        found = find_repair(case, findings, seen, seed, finding, {**others, EXAMPLE: args})
        return found and _renamed(found, listed([f"`{k}` = {v:g}" for k, v in numbers.items()]))
    known = {*rules_on(case, seen, seed), *(it.rule for it in findings)} - {finding.rule}
    backward = method_of(function, "backward")
    if backward and ast.unparse(backward.tree).count(".saved_tensors") > 1:
        known.add("saved-twice")  # the diagnosis skips this rule if gradients are wrong
    held = _whole_numbers(case, seed)
    verified = partial(_verified, case, findings, seed, finding, others, told, known, held)
    with suppress(TimeUp), time_limit(SECONDS):
        runner = InProcess(case.subject, _with_truth(case, seen, seed), seed, verified)
        return search(runner, finding)
    return None


def find_clue(case: Case, seen: Sequence[Evidence], seed: int, finding: Finding) -> Clue | None:
    """Return a clue to the cause of the wrong gradients, or ``None`` if the cause is unknown.

    The clue names steps in ``forward``. If no step explains the gradients, it names expressions in
    ``backward``.

    Args:
        case: The diagnosed case.
        seen: The evidence, with the expected gradients.
        seed: The seed of the diagnosis.
        finding: A finding about wrong values.
    """
    if case.subject.function is None:
        return None
    if any(on_cpu(value) is not value for value in case.args):  # a wrong value can be an index
        case = _on_cpu(case)
        seen = case.collect(seed, thorough=False)
    record = None
    with suppress(TimeUp), time_limit(SECONDS_OF_A_CLUE):
        record = _recorder(case, seen[0], seed)
    if record is None:
        return None
    # Most searches find nothing that other calls could refute, so make these calls on demand.
    others = chain(_without_zeros(case), (args for _, args in _other_inputs(case, seed)))
    of_steps, of_values = tee(others)
    for find in (
        partial(find_mistaken_step, record, case.subject, finding, seen, seed, of_steps),
        partial(find_wrong_value, record, case.subject, seen, seed, of_values),
    ):
        with suppress(TimeUp), time_limit(SECONDS_OF_A_CLUE):
            if found := find():
                return found
    return None


def _without_zeros(case: Case) -> Iterator[tuple[Any, ...]]:
    """If there are zeros, yield the arguments with every zero replaced.

    An example with zeros, such as a point on an axis, may be a special case.
    """
    zeros = [is_float(value) and bool((value == 0).any()) for value in case.args]
    if any(zeros):
        pairs = zip(case.args, zeros, strict=True)
        yield tuple(_leaf(value.masked_fill(value == 0, 0.7), value) if it else value
                    for value, it in pairs)  # fmt: skip


def _recorder(case: Case, example: Evidence, seed: int) -> Record | None:
    """Return a function that records code in the author's file, once for each set of inputs.

    The first candidate is ``forward``, unless the user declares a surrogate gradient. The next
    candidate is the declared surrogate or reference, if it is in the same file. Choose the first
    candidate for which autograd computes the expected gradients. If autograd computes other
    gradients for every candidate, choose the first one. Return ``None`` without candidates.
    """
    function = case.subject.function
    assert function is not None
    forward = as_ordinary_code(function)
    choices = [] if example.values.surrogate else [forward]
    if (declared := case.surrogate or case.reference) and _file(declared) == _file(
        function.forward
    ):
        choices.append(declared)
    records = [cache(partial(RecordedForward, code, case.subject, seed)) for code in choices]
    for record in records:
        with suppress(*USERS, CannotDiagnoseError):
            if record(example).is_followed:
                return record
    return records[0] if records else None


def _file(code: Callable[..., Any]) -> str:
    known: str = getattr(getattr(code, "__code__", None), "co_filename", "")
    return known


def _on_cpu(case: Case) -> Case:
    """Return the same case with CPU copies of all inputs."""
    sampler = case.sampler

    def sampled(rng: torch.Generator) -> tuple[Any, ...]:
        assert sampler is not None
        return tuple(map(on_cpu, as_tuple(sampler(rng))))

    args = tuple(map(on_cpu, case.args))
    return replace(case, args=args, sampler=sampled if sampler else None)


def _renamed(repair: Repair, example: str) -> Repair:
    """Return a copy of a repair with a new description of the example."""
    _, *rest = repair.checked_on
    return replace(repair, checked_on=(example, *rest))


def _verified(
    case: Case,
    findings: Sequence[Finding],
    seed: int,
    finding: Finding,
    others: Calls,
    told: Collection[str],
    known: Collection[str],
    held: Collection[str],
    function: type[Function],
) -> Repair | None:
    """Return a repair that names the inputs on which a Function is correct, or ``None``.

    ``others`` holds all inputs to try. The repair names only those whose names are in ``told``.
    """
    changed = replace(case, subject=edited(case.subject, function))
    if held and not _whole_numbers(changed, seed).issuperset(held):
        return None
    left = {EXAMPLE: _findings_on(changed, case.args, seed, explained=True)}
    if not has_error(left[EXAMPLE]):
        for what, args in others.items():
            with suppress(CannotDiagnoseError):
                found_there = _findings_on(changed, args, seed)
                no_inputs = any(found.rule in FORWARD_RULES for found in found_there)
                if no_inputs or (found_there and not _is_finite(changed, args, seed)):
                    continue  # the Function does not accept these inputs
                errors = {found.rule for found in found_there if found.severity == "error"}
                wrong_values = filter(_is_about_values, errors - {"non-finite"})
                if what.startswith(LENGTH_1) and not any(wrong_values):
                    continue  # the length may depend on another one, or a variance may be 0
                if errors and _is_no_better(case, args, seed, finding, errors, known):
                    continue
                if has_error(found_there):
                    return None
                if any(_is_new(found, known) for found in found_there):
                    before = _rules_on(case, args, seed)
                    if any(_is_new(found, before) for found in found_there):
                        return None
                left[what] = found_there
        left[EXAMPLE] = conclude(changed, seed + 2, seed + 3).findings
    if has_error(left[EXAMPLE]):
        return _partial(changed, findings, finding, left[EXAMPLE], others, seed)
    if any(_is_new(found, known) for found in left[EXAMPLE]):
        return None
    rules = {found.rule for found in left[EXAMPLE]}
    if finding.severity == "info" and finding.rule in rules:
        return None
    if finding.rule == "once-differentiable-leak" and rules & SILENT:
        return None  # without the decorator, second derivatives would be silently wrong
    is_error = finding.severity == "error"
    named = str(finding.evidence.get("input", ""))
    compute = partial(_jacobians, function, case.args, named) if is_error else None
    checked_on = (EXAMPLE, OTHER_VALUES, *(it for it in left if it in told))
    removes = "" if is_error else finding.rule
    return Repair("", (), checked_on, removes, compute=compute, made=function)


def _is_no_better(
    case: Case,
    args: Sequence[Any],
    seed: int,
    finding: Finding,
    errors: Collection[str],
    known: Collection[str],
) -> bool:
    """Return whether the original Function has the same errors for these inputs.

    Return false if one of the original Function's errors also occurs on the example.

    If the finding is about wrong values, count only exceptions, wrong shapes and non-finite values.
    """
    before = {found.rule for found in _findings_on(case, args, seed)} - {finding.rule}
    if _is_about_values(finding.rule):
        before &= {"backward-raises", "gradient-shape", "non-finite"}
    return before.issuperset(errors) and before.isdisjoint(known)


def _is_finite(case: Case, args: Sequence[Any], seed: int) -> bool:
    """Return whether ``forward`` returns finite values and never divides by 0."""
    with _Quotients() as quotients:  # type: ignore[no-untyped-call]
        return _accepts(case, args, seed) and quotients.are_finite


class _Quotients(DispatchMode):
    """A context manager that checks the results of all divisions."""

    are_finite = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if is_float(result) and operation_name(func) in ("div", "div_", "reciprocal", "rsqrt"):
            self.are_finite = self.are_finite and bool(result.isfinite().all())
        return result


def _whole_numbers(case: Case, seed: int) -> set[str]:
    """Return the ``ctx`` attributes that hold an integer, such as a count, a length or a dim.

    By coincidence, an edit that uses a tensor instead of the integer could give the same result on
    some inputs.
    """
    wanted = [k for k, value in enumerate(case.args) if is_float(value)]
    graph = graph_of(case.subject, case.args, wanted, (), seed)
    held = vars(graph.node) if graph else {}
    return {name for name, value in held.items() if type(value) is int}


def rules_on(case: Case, evidence: Sequence[Evidence], seed: int) -> set[str]:
    """Return the rules that the Function breaks, including rules hidden by wrong values."""
    found = case.judge(evidence, seed)
    errors = {it.rule for verdict in found for it in verdict if it.severity == "error"}
    hidden = case.judge(evidence, seed, skip_rules=and_their_like(errors))
    return {it.rule for verdict in (*found, *hidden) for it in verdict}


def _rules_on(case: Case, args: Sequence[Any], seed: int) -> set[str]:
    there = _there(case, args)
    return rules_on(there, there.collect_values(seed + 2, explained=False), seed + 2)


def _findings_on(
    case: Case, args: Sequence[Any], seed: int, *, explained: bool = False
) -> Findings:
    """Return the findings for another call. Examine only the gradients and their values."""
    there = _there(case, args)
    (found,) = there.judge(there.collect_values(seed + 2, explained=explained), seed + 2)
    return found


def _there(case: Case, args: Sequence[Any]) -> Case:
    """Return the case for another call, which can have more or fewer arguments."""
    subject = subject_of(case.subject.function, len(args))
    around, in_float64 = case.subject.around, case.subject.in_float64
    subject = replace(subject, around=around, in_float64=in_float64)
    return replace(case, args=tuple(args), subject=subject)


SILENT = {"silent-double-backward", "silent-reverse-over-forward"}
# Rule families about other inputs or other uses. Edits to the values cannot cause these errors.
OTHER_USES = ("layout", "order", "transforms")


def _partial(
    changed: Case,
    findings: Sequence[Finding],
    finding: Finding,
    left: Findings,
    others: Calls,
    seed: int,
) -> Repair | None:
    """Return a repair that removes one finding and describes the remaining error, or ``None``.

    A remaining error must also exist without the change, or be of a kind that edits cannot cause.
    At least one wrong gradient must now be correct, and every gradient that is still wrong must
    have been wrong before.
    """
    function = changed.subject.function
    errors = [found for found in left if found.severity == "error"]
    rules = {found.rule for found in errors}
    before = {found.rule for found in findings if found.severity == "error"} - {finding.rule}
    if finding.rule == "forward-mismatch":
        gone = not rules.intersection(FORWARD_RULES)
    elif _is_about_values(finding.rule):
        if all(RULES[found.rule].family in OTHER_USES for found in errors):
            checked_on = (EXAMPLE, OTHER_VALUES)
            return Repair("", (), checked_on, left=_sentence(errors), made=function)
        wrong, still = _wrong_inputs(findings), _wrong_inputs(errors)
        if not (still and still < wrong):
            return None
        for args in others.values():
            with suppress(CannotDiagnoseError):
                there = [it for it in _findings_on(changed, args, seed) if it.severity == "error"]
                if there and not _wrong_inputs(there) <= still and _wrong_inputs(there):
                    return None
        right = tuple(sorted(wrong - still))
        return Repair("", (), (), left=_sentence(errors), right=right, made=function)
    else:
        gone = finding.rule not in rules and all(
            found.rule in before or RULES[found.rule].family in OTHER_USES for found in errors
        )
    if not gone:
        return None
    return Repair("", (), (), finding.rule, left=_sentence(errors), made=function)


def _sentence(errors: Sequence[Finding]) -> str:
    return sentence(errors[0].message)


def _wrong_inputs(findings: Sequence[Finding]) -> set[str]:
    """Return the inputs that are named in findings about wrong values.

    Return an empty set if an error is not about wrong values or names no input.
    """
    named: set[str] = set()
    for found in findings:
        if found.severity == "error":
            inputs = found.evidence.get("inputs") or [found.evidence.get("input", "")]
            if not _is_about_values(found.rule) or not all(inputs):
                return set()
            named.update(map(str, inputs))
    return named


def _jacobians(function: type[Function], args: Sequence[Any], named: str) -> Jacobians | None:
    """Return the Jacobians for an input, or ``None`` if they cannot be computed."""
    with suppress(CannotDiagnoseError), redirect_stdout(io.StringIO()):
        pairs = compute_jacobians(function, args).pairs
        return next((pair for pair in pairs if pair.input == named), None)
    return None


def _is_about_values(rule: str) -> bool:
    return RULES[rule].family in VALUE_FAMILIES


def _is_new(found: Finding, rules: Collection[str]) -> bool:
    told = found.severity != "info" or RULES[found.rule].family == "contract"
    return told and found.rule not in rules


def _with_truth(case: Case, seen: Sequence[Evidence], seed: int) -> Sequence[Evidence]:
    """Return evidence with expected gradients, even if ``backward`` raised.

    In that case, collect the evidence with a ``backward`` that returns ``None`` for every input.
    """
    function = case.subject.function
    if function is None or any(each.values.expected for each in seen):
        return seen
    gives_none = staticmethod(lambda ctx, *_: (None,) * len(ctx.needs_input_grad))
    silent = subclass_of(function, backward=gives_none)
    with suppress(CannotDiagnoseError):
        return replace(case, subject=edited(case.subject, silent)).collect(seed, thorough=False)
    return seen


def _other_inputs(case: Case, seed: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield arguments that ``diagnose`` does not try by itself, each with a description."""
    args = case.args
    for other in _with_other_lengths(case, seed):
        yield f"inputs of {_shapes(other)}", other
    whole = [isinstance(value, Tensor) and not is_float(value) for value in args]
    if any(whole):
        rng = generator(seed, Stream.SAMPLES)
        pairs = zip(args, whole, strict=True)
        yield "other integers", tuple(_redrawn(v, rng) if it else v for v, it in pairs)
    if any(map(is_number, args)):
        yield "other numbers", tuple(_another(v) if is_number(v) else v for v in args)
        if any(isinstance(v, float) for v in args):
            yield "the number 0", tuple(0.0 if isinstance(v, float) else v for v in args)
        iterations = _iterations(case)
        ones = tuple(
            1 if _is_count(it) and k not in iterations else it for k, it in enumerate(args)
        )
        if ones != args:
            yield "the number 1", ones
    single = [is_float(value) and value.numel() == 1 for value in args]
    for k in (k for k, it in enumerate(single) if it):
        zero = _leaf(torch.zeros_like(args[k]), args[k])
        yield f"args[{k}] = 0", (*args[:k], zero, *args[k + 1 :])


def _is_count(value: Any) -> bool:
    """Return whether a number could be a length or count, such as a chunk size.

    If so, the verification also replaces the number with 1, for example to create several chunks.
    """
    return type(value) is int and value > 1


def _iterations(case: Case) -> set[int]:
    """Return the positions of arguments that count iterations, as in ``for _ in range(steps)``.

    With a single iteration, a solver does not converge, and its gradient is wrong.
    """
    forward = method_of(case.subject.function, "forward") if case.subject.function else None
    counts = [
        it.iter.args[0].id
        for it in ast.walk(forward.tree if forward else ast.Module([], []))
        if isinstance(it, ast.For)
        and isinstance(it.iter, ast.Call)
        and ast.unparse(it.iter.func) == "range"
        and len(it.iter.args) == 1
        and isinstance(it.iter.args[0], ast.Name)
    ]
    return {k for k, name in enumerate(case.subject.parameters) if name in counts}


def _another(value: Any) -> Any:
    """Return another number. A small number may be a tolerance, so it stays small."""
    if isinstance(value, int):
        return value + 1
    return 1.25 * value if 0 < abs(value) < SMALL else 1.25 * value + 0.125


def _redrawn(value: Tensor, rng: torch.Generator) -> Tensor:
    """Return random integers up to the tensor's largest integer, or random flags for a bool tensor.

    If all integers are distinct, only shuffle them, because they could be a permutation. If a bool
    tensor has several rows, shuffle the rows, because each row may have to start with its True
    values.
    """
    if value.dtype == torch.bool and value.dim() > 1 and len(value) > 1:
        shuffled = value.flip(0) if len(value) < FEW else value[_order(len(value), rng, value)]
        if not torch.equal(shuffled, value):
            return shuffled
    if value.dtype == torch.bool:
        return torch.rand(value.shape, generator=rng).lt(0.5).to(value.device)
    if value.unique().numel() == value.numel():
        return value.flatten()[_order(value.numel(), rng, value)].reshape(value.shape)
    least, most = (int(it) for it in value.aminmax()) if value.numel() else (0, 0)
    other = torch.randint(min(least, 0), most + 1, value.shape, generator=rng)
    return other.to(value)


FEW = 4  # rows; shuffling fewer rows often leaves their order unchanged


def _order(count: int, rng: torch.Generator, like: Tensor) -> Tensor:
    return torch.randperm(count, generator=rng).to(like.device)


def _with_other_lengths(case: Case, seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments with one length changed in all tensors that have it.

    Usually, reduce the length by 1. If the Function rejects the shorter inputs, increase the length
    by 1 instead, because another length may be half of it, rounded down. If the Function rejects
    these inputs too, double the length, because it may have to be a multiple of another length.
    """
    for length in islice(_lengths(case), LENGTHS):
        for change in (with_other_length, _with_one_more, _with_twice_the_length):
            other = tuple(_leaf(change(it, length), it) for it in case.args)
            if change is _with_twice_the_length or _accepts(case, other, seed):
                yield other
                break


def _lengths(case: Case) -> dict[int, None]:
    """Return the lengths of all dims that are longer than 1."""
    tensors = [value for value in case.args if isinstance(value, Tensor)]
    return dict.fromkeys(n for tensor in tensors for n in tensor.shape if n > 1)


def _with_one_more(value: Any, length: int) -> Any:
    """Append a changed copy of the first slice along each dim of this length.

    If the integers of a 1-D tensor are distinct, append the next integer, because the tensor could
    be a permutation.
    """
    if not isinstance(value, Tensor):
        return value
    for dim in range(value.dim()):
        if value.shape[dim] == length:
            more = value.narrow(dim, 0, 1)
            if is_float(value):
                more = 0.75 * more
            elif value.dim() == 1 and _are_distinct(value):
                more = value.max().reshape(1) + 1
            value = torch.cat([value, more], dim)
    return value


def _are_distinct(integers: Tensor) -> bool:
    return integers.dtype != torch.bool and integers.unique().numel() == integers.numel()


def _with_twice_the_length(value: Any, length: int) -> Any:
    """Append a changed copy of a tensor along each dim of this length.

    If all integers are distinct, increase the integers in the copy, because the tensor could be a
    permutation.
    """
    if not isinstance(value, Tensor):
        return value
    for dim in range(value.dim()):
        if value.shape[dim] == length:
            copy = value.flip(dim)
            if is_float(value):
                copy = 0.75 * copy
            elif _are_distinct(value):
                copy = copy + length
            value = torch.cat([value, copy], dim)
    return value


def _more_inputs(case: Case, seed: int, *, lengths: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield inputs that reveal edits that are correct only by coincidence.

    In all other inputs, every value may be positive or close to 0, and two lengths may be equal.
    The report calls the new inputs "other values".
    """
    signs = [1.0, -1.0] * len(case.args)
    for what, factors in (
        ("larger values of other signs", [3 * it for it in signs]),
        ("larger values of the opposite signs", [-3 * it for it in signs]),
        ("larger values", [3.0 for _ in signs]),
    ):
        pairs = zip(case.args, factors, strict=False)
        other = tuple(
            _leaf(k * it, it) if is_float(it) and not _is_mask(it) else it for it, k in pairs
        )
        if _accepts(case, other, seed):
            yield what, other
            break
    for number, other in enumerate(_with_other_lengths(case, seed) if lengths else ()):
        yield f"length {number}", other
    for length in islice(_lengths(case), LENGTHS):
        other = tuple(_leaf(_with_length_1(it, length), it) for it in case.args)
        if _accepts(case, other, seed):
            yield f"{LENGTH_1} for {length}", other


def _with_length_1(value: Any, length: int) -> Any:
    """Keep only the first slice along each dim of this length."""
    if isinstance(value, Tensor):
        for dim in range(value.dim()):
            if value.shape[dim] == length:
                value = value.narrow(dim, 0, 1).contiguous()
    return value


def _is_mask(value: Tensor) -> bool:
    """Return whether a tensor is real and contains 0, 1 and no other values, as a mask does."""
    return not value.is_complex() and {*value.unique().tolist()} == {0, 1}


def _accepts(case: Case, args: Sequence[Any], seed: int) -> bool:
    """Return whether ``forward`` returns finite values."""
    run = attempt(lambda: Session(case.subject, args, (), seed).run(watched=False))
    return not isinstance(run, Failure) and all(bool(it.isfinite().all()) for it in run.tensors)


def _leaf(value: Any, like: Any) -> Any:
    return value.detach().requires_grad_(like.requires_grad) if is_float(value) else value


def _shapes(args: Sequence[Any]) -> str:
    shapes = dict.fromkeys(tuple(value.shape) for value in args if isinstance(value, Tensor))
    return f"shape{'s' * (len(shapes) > 1)} {listed([*map(str, shapes)], len(shapes))}"
