"""Try edits of ``backward``, and of what ``forward`` saves, until every gradient is right.

One try is one call of the edited ``backward`` on the graph node of a forward pass that was made
before. The true gradients are known from the evidence. What is right on the example and on other
inputs is then verified: the Function with this edit is diagnosed as any other, on inputs that the
search has not seen, and it is called with tensors of other lengths.
"""

from __future__ import annotations

import ast
import io
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, combinations, islice
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import USERS, attempt
from autograd_doctor._execution.isolation import Stream, generator
from autograd_doctor._execution.passes import handed_over, own_node
from autograd_doctor._execution.session import Run, Session, Subject
from autograd_doctor._numerics.closeness import within
from autograd_doctor._numerics.tensors import as_tuple, is_float
from autograd_doctor._pipeline import Case, conclude, has_error
from autograd_doctor._probes.values import with_other_length
from autograd_doctor._repair.contract import FIXES, Definition, Fix, fixes_for
from autograd_doctor._repair.edits import (
    COMPUTING,
    KINDS,
    SAVING,
    Edit,
    Scope,
    concerning,
    edits_of,
    made_together,
    scope_of,
    sooner,
)
from autograd_doctor._repair.source import Method, changes_of, kept_on_ctx, method_of, with_methods
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import Cotangent, Evidence, Expected, Failure
from autograd_doctor.finding import Finding
from autograd_doctor.formatting import listed
from autograd_doctor.jacobians import Jacobians, compute_jacobians
from autograd_doctor.repair import Change, Repair

SECONDS = 0.7  # of computing
MOST_VERIFIED = 4  # candidates
PARTIAL = 40  # edits that make some of the gradients right, for pairs
MOST_ALIKE = 6  # pairs of the same edit
LIKELY = 1.2  # the cost of an edit that is tried with every other one

Verify = Callable[[type[Function]], Repair | None]
"""Returns a repair that says on what an edited Function is right; nothing if it is wrong."""


@dataclass(frozen=True)
class Candidate:
    """One edit, or two, that made the gradients right on the inputs of the search."""

    edits: tuple[Edit, ...]
    file: str
    changes: tuple[Change, ...]
    function: type[Function]

    @property
    def rank(self) -> tuple[float, int, int]:
        """What sorts candidates: the likely ones first, then those that write the least.

        Of these, the whole right side of a statement comes before a part of it. The last dim is -1
        for most authors, so its sign does not count.
        """
        texts = [("".join(it.before), "".join(it.after)) for it in self.changes]
        before, after = (len("".join(it).replace("-1", "1")) for it in zip(*texts, strict=True))
        parts = sum(not isinstance(edit.place[0], ast.stmt) for edit in self.edits)
        return sum(edit.cost for edit in self.edits), after - before, parts


@dataclass(frozen=True)
class Trial:
    """One forward pass, and what its backward should return for some cotangents."""

    node: Any
    tensors: Sequence[bool]  # which arguments are some
    sent: Sequence[tuple[Tensor | None, ...]]
    expected: Sequence[tuple[Expected, ...]]  # of each wanted input, for each cotangent
    wanted: Sequence[int]

    def right(self, backward: Callable[..., Any], most: int | None = None) -> tuple[bool, ...]:
        """Return which of the wanted inputs get the right gradient; none if backward raises."""
        right = [True] * len(self.wanted)
        for sent, expected in islice(zip(self.sent, self.expected, strict=True), most):
            try:
                with torch.no_grad():
                    grads = as_tuple(backward(self.node, *map(_copy, sent)))
            except USERS:
                return ()
            more = len(grads) - len(self.tensors)
            tensors = [*self.tensors, *(False for _ in range(more))]
            if more < 0:
                return ()
            if any(g is not None and not it for g, it in zip(grads, tensors, strict=True)):
                return ()
            for slot, (position, known) in enumerate(zip(self.wanted, expected, strict=True)):
                right[slot] = right[slot] and _is_right(grads[position], known)
            if not any(right):
                break
        return tuple(right)


def _copy(grad: Tensor | None) -> Tensor | None:
    return None if grad is None else grad.clone()


def _is_right(grad: Any, expected: Expected) -> bool:
    known = ~torch.isnan(expected.value)
    if grad is None:
        grad = torch.zeros_like(expected.value)
    if not isinstance(grad, Tensor) or grad.shape != expected.value.shape:
        return False
    if grad.is_complex() != expected.value.is_complex():
        return False
    close = within(grad.to(expected.value.dtype), expected)
    return bool(close[known].all())


def trial_of(subject: Subject, evidence: Evidence, seed: int) -> Trial | None:
    """Return one forward pass on the inputs of evidence, ``None`` if nothing is known there."""
    compared = [name for name in evidence.values.expected if name in evidence.values.vjps]
    if not compared:
        return None
    run = attempt(partial(_run, subject, evidence, seed))
    if isinstance(run, Failure) or not any(out.grad_fn is not None for out in run.tensors):
        return None

    node = own_node(run)

    def sent(name: Cotangent) -> tuple[Tensor | None, ...]:
        given = handed_over(run.returned, evidence.values.vjps[name].grad_outputs)
        if not getattr(node, "materialize_grads", True):
            return tuple(given)
        pairs = zip(given, run.returned, strict=True)
        return tuple(torch.zeros_like(out) if g is None else g for g, out in pairs)

    return Trial(
        node,
        [isinstance(value, Tensor) for value in evidence.inputs],
        [sent(name) for name in compared],
        [evidence.values.expected[name] for name in compared],
        evidence.wanted,
    )


def search(
    subject: Subject, finding: Finding, seen: Sequence[Evidence], seed: int, verify: Verify
) -> Repair | None:
    """Return the likeliest edit that removes a finding, ``None`` if none is found in time.

    Args:
        subject: A Function.
        finding: What is to be repaired.
        seen: Evidence on the example and on other inputs, with the expected gradients.
        seed: That of the diagnosis.
        verify: Tells on what an edited Function is right.
    """
    function = subject.function
    if function is None:
        return None
    methods = {name: it for name in METHODS if (it := method_of(function, name)) is not None}
    fixes = fixes_for(Definition(methods), finding)
    found = (it for fix in fixes for it in _candidate(function, fix))
    if repair := _first_verified(found, verify, SECONDS):
        return repair
    deadline = time.thread_time() + SECONDS
    if finding.rule == "forward-mismatch":
        outputs = _right_outputs(subject, [*methods.values()], seen, seed, deadline)
        return _first_verified(islice(outputs, MOST_VERIFIED), verify)
    trials = [trial for each in seen if (trial := trial_of(subject, each, seed)) is not None]
    if not trials or finding.severity != "error" or _is_right_already(function, trials):
        return None
    values = _right_values(subject, finding.rule, [*methods.values()], trials, seen, seed, deadline)
    return _first_verified(islice(values, MOST_VERIFIED), verify)


def _is_right_already(function: type[Function], trials: Sequence[Trial]) -> bool:
    """Whether the gradients are right as they are, so that no edit of them can help."""
    right = _right_everywhere(trials, function.backward)
    return bool(right) and all(right)


def _wrong_positions(function: type[Function], trials: Sequence[Trial]) -> Sequence[int]:
    """Return the positions of the inputs whose gradient is wrong, none if it is not known."""
    right = _right_everywhere(trials, function.backward)
    return [k for k, it in zip(trials[0].wanted, right, strict=False) if not it]


def _first_verified(
    candidates: Iterable[Candidate], verify: Verify, seconds: float = math.inf
) -> Repair | None:
    """Return the first repair that holds; after the first try, the others have some seconds."""
    deadline = math.inf
    for candidate in candidates:
        if time.thread_time() > deadline:
            return None
        if repair := verify(candidate.function):
            return replace(repair, file=candidate.file, changes=candidate.changes)
        deadline = min(deadline, time.thread_time() + seconds)  # the first may import modules
    return None


def _right_values(
    subject: Subject,
    rule: str,
    methods: Sequence[Method],
    trials: Sequence[Trial],
    seen: Sequence[Evidence],
    seed: int,
    deadline: float,
) -> list[Candidate]:
    """Return the Functions with an edit, or two, that make every gradient right."""
    function = subject.function
    assert function is not None
    attempts = [
        (method, edit)
        for method in methods
        for edit in edits_of(_scope_of(method, methods), METHODS[method.name])
    ]
    backward = next((method for method in methods if method.name == "backward"), None)
    if backward is not None:
        concerns = concerning(backward.tree, _wrong_positions(function, trials))
        attempts = [(it, edit) for it, edit in attempts if it is not backward or concerns(edit)]
    attempts.sort(key=lambda it: sooner(rule, it[1]))
    candidates: list[Candidate] = []
    some: list[tuple[Edit, tuple[bool, ...]]] = []
    for method, edit in attempts:
        found = candidates and sooner(rule, edit) > sooner(rule, candidates[0].edits[0])
        if time.thread_time() > deadline or found:
            break
        if edit.is_idle:
            continue
        with edit.made():
            made = method.compiled()
            if made is None:
                continue
            if method.name == "backward":
                right = _right_everywhere(trials, made)
            else:
                right = _right_with(subject, with_methods(function, {method: made}), seen, seed)
        if right and all(right):
            candidates += _candidate(function, ((method, edit),))
        elif any(right) and method.name == "backward":
            some.append((edit, right))
    if not candidates and backward is not None:
        of_backward = [edit for method, edit in attempts if method is backward]
        pairs = chain(_complementary(some), _alike(of_backward), _likely_pairs(of_backward))
        candidates = list(_found_together(function, backward, trials, pairs, deadline))
    return sorted(candidates, key=lambda it: it.rank)


def _right_outputs(
    subject: Subject,
    methods: Sequence[Method],
    seen: Sequence[Evidence],
    seed: int,
    deadline: float,
) -> list[Candidate]:
    """Return the Functions with an edit of forward that computes what the reference does."""
    function = subject.function
    forward = next((method for method in methods if method.name == "forward"), None)
    if function is None or forward is None:
        return []
    scope = scope_of(forward.tree, forward.free, [it.tree for it in methods])
    candidates: list[Candidate] = []
    for edit in sorted(edits_of(scope, COMPUTING), key=lambda it: it.cost):
        if time.thread_time() > deadline or (candidates and edit.cost > candidates[0].rank[0]):
            break
        if edit.is_idle:
            continue
        with edit.made():
            made = forward.compiled()
            other = with_methods(function, {forward: made}) if made else None
        if other is not None and _computes(edited(subject, other), seen, seed):
            candidates += _candidate(function, ((forward, edit),))
    return sorted(candidates, key=lambda it: it.rank)


def _computes(subject: Subject, seen: Sequence[Evidence], seed: int) -> bool:
    """Whether forward returns what the reference returned."""
    known = [each for each in seen if each.values.reference_outputs is not None]
    for each in known:
        run = attempt(partial(_run, subject, each, seed))
        wanted = each.values.reference_outputs or ()
        if isinstance(run, Failure) or len(run.tensors) != len(wanted):
            return False
        for out, right in zip(run.tensors, wanted, strict=True):
            same = out.shape == right.shape and out.dtype == right.dtype
            if not same or not torch.allclose(out, right, rtol=1e-6, atol=1e-9, equal_nan=True):
                return False
    return bool(known)


def _run(subject: Subject, evidence: Evidence, seed: int) -> Run:
    return Session(subject, evidence.inputs, evidence.wanted, seed).run(watched=False)


def _scope_of(method: Method, methods: Sequence[Method]) -> Scope:
    """Return what a method's expressions may name: what forward leaves on ctx, too."""
    others = [it for it in methods if it is not method and method.name == "backward"]
    ctx = method.tree.args.args[0].arg
    known = [*method.free, *(f"{ctx}.{name}" for name in kept_on_ctx(others))]
    return scope_of(method.tree, known, [it.tree for it in others])


METHODS = {"backward": KINDS, "setup_context": SAVING, "forward": SAVING}


def _right_with(
    subject: Subject, function: type[Function], seen: Sequence[Evidence], seed: int
) -> tuple[bool, ...]:
    """Return which gradients are right with another forward, which takes a new pass."""
    right: tuple[bool, ...] = ()
    for each in seen:
        trial = trial_of(edited(subject, function), each, seed)
        if trial is None:
            return ()
        also = trial.right(function.backward)
        right = tuple(a and b for a, b in zip(right or also, also, strict=False))
        if not any(right):
            break
    return right


def _right_everywhere(trials: Sequence[Trial], backward: Callable[..., Any]) -> tuple[bool, ...]:
    """Return which of the wanted inputs get the right gradient in all trials."""
    right = trials[0].right(backward, most=1)  # which settles most
    for trial in trials if any(right) else ():
        also = trial.right(backward)
        right = tuple(a and b for a, b in zip(right, also, strict=False))
        if not any(right):
            break
    return right


def _candidate(function: type[Function], fix: Fix) -> Iterator[Candidate]:
    """Yield the Function with edits of its methods, if they can be written in place."""
    edits = tuple(edit for _, edit in fix)
    by_method: dict[Method, list[Edit]] = {}
    for method, edit in fix:
        by_method.setdefault(method, []).append(edit)
    changes = [changes_of(method, part) for method, part in by_method.items()]
    with made_together(edits):
        made = {method: new for method in by_method if (new := method.compiled()) is not None}
        files = {method.file for method in by_method}
        if all(changes) and len(made) == len(by_method) and len(files) == 1:
            all_changes = sorted((it for part in changes for it in part), key=lambda it: it.line)
            other = with_methods(function, made)
            yield Candidate(edits, files.pop(), tuple(all_changes), other)


Together = tuple[Edit, ...]


def _complementary(some: Sequence[tuple[Edit, tuple[bool, ...]]]) -> Iterator[Together]:
    """Yield edits of which each makes some gradients right, and both together all of them."""
    for (one, here), (other, there) in combinations(some[:PARTIAL], 2):
        if all(a or b for a, b in zip(here, there, strict=True)):
            yield one, other


def _alike(edits: Sequence[Edit]) -> Iterator[Together]:
    """Yield the same edit in all places, and in two of them: people repeat a mistake."""
    groups: dict[tuple[str, str, str], list[Edit]] = {}
    for edit in edits:
        if isinstance(edit.old, ast.Name | ast.Attribute | ast.Constant) and isinstance(
            edit.new, ast.expr
        ):
            key = edit.kind, ast.unparse(edit.old), ast.unparse(edit.new)
            groups.setdefault(key, []).append(edit)
    for group in groups.values():
        if len(group) > 2:
            yield tuple(group)
        yield from islice(combinations(group, 2), MOST_ALIKE)


def _likely_pairs(edits: Sequence[Edit]) -> Iterator[Together]:
    """Yield pairs of likely edits, neither of which replaces what the other changes."""
    likely = [edit for edit in edits if edit.cost <= LIKELY]
    inside = [{id(node) for node in ast.walk(edit.old)} for edit in likely]
    places = [id(edit.place[0]) for edit in likely]
    pairs = combinations(range(len(likely)), 2)
    for i, j in sorted(pairs, key=lambda pair: sum(likely[k].cost for k in pair)):
        if places[i] not in inside[j] and places[j] not in inside[i]:
            yield likely[i], likely[j]


def _found_together(
    function: type[Function],
    method: Method,
    trials: Sequence[Trial],
    pairs: Iterator[Together],
    deadline: float,
) -> Iterator[Candidate]:
    """Yield the first pairs that are right together, as long as there is time."""
    cost = math.inf
    for edits in pairs:
        total = sum(edit.cost for edit in edits)
        if time.thread_time() > deadline or total > cost:
            return
        with made_together(edits):
            made = method.compiled()
            right = _right_everywhere(trials, made) if made else ()
        if made is not None and right and all(right):
            cost = total
            yield from _candidate(function, tuple((method, edit) for edit in edits))


def edited(subject: Subject, function: type[Function]) -> Subject:
    """Return a subject with an edited Function in the place of its own."""
    return replace(subject, function=function, call=function.apply)


# --------------------------------------------------------------------------------------------------
# Verify what was found.
# --------------------------------------------------------------------------------------------------

LENGTHS = 2  # that are changed, one at a time


def with_search(
    findings: Sequence[Finding],
    search: Callable[[Finding], Repair | None],
    level: str,
) -> Iterator[Finding]:
    """Yield findings, those that may have a repair with a search for it.

    Of the errors, it is the first: the others may be its consequences.
    """
    first = next((found for found in findings if found.severity == "error"), None)
    # To return 0 would be a right gradient of steps, and not what anybody means.
    undeclared = any(found.rule == "undeclared-surrogate" for found in findings)
    for found in findings:
        told = found.severity == "warning" or level == "full"
        if not undeclared and (found is first or (not first and told and found.rule in FIXES)):
            yield replace(found, search=cache(partial(search, found)))
        else:
            yield found


def find_repair(
    case: Case, findings: Sequence[Finding], seen: Sequence[Evidence], seed: int, finding: Finding
) -> Repair | None:
    """Return a change of a Function that removes a finding, ``None`` if none is found.

    Args:
        case: What was diagnosed.
        findings: What was found.
        seen: The evidence, with the expected gradients.
        seed: That of the diagnosis.
        finding: The one of them that is to be repaired.
    """
    rules = {found.rule for found in findings if found is not finding}

    def removed(function: type[Function]) -> Repair | None:
        changed = replace(case, subject=edited(case.subject, function))
        left = conclude(changed, seed + 2, seed + 3).findings
        if finding.rule == "forward-mismatch" and has_error(left):
            told = {found.rule for found in left}
            kept = told & {"forward-mismatch", "forward-raises", "inexact-forward"}
            return None if kept else Repair("", (), (), finding.rule)
        if has_error(left) or any(_is_new(found, rules) for found in left):
            return None
        shapes = []
        for what, args in _other_inputs(case.args, seed):
            with suppress(CannotDiagnoseError):
                others = conclude(replace(changed, args=args), seed + 2, seed + 3).findings
                errors = {found.rule for found in others if found.severity == "error"}
                if errors - {"forward-raises"}:
                    return None
                shapes += [] if errors else [what]
        is_error = finding.severity == "error"
        checked_on = ("your example", "other values", *shapes)
        named = str(finding.evidence.get("input", ""))
        compute = partial(_jacobians, function, case.args, named) if is_error else None
        return Repair("", (), checked_on, "" if is_error else finding.rule, compute)

    return search(case.subject, finding, _with_truth(case, seen, seed), seed, removed)


def _jacobians(function: type[Function], args: Sequence[Any], named: str) -> Jacobians | None:
    """Return the Jacobians by an input, ``None`` if they are too large to be drawn."""
    with suppress(CannotDiagnoseError), redirect_stdout(io.StringIO()):
        pairs = compute_jacobians(function, args).pairs
        return next((pair for pair in pairs if pair.input == named), None)
    return None


def _is_new(found: Finding, rules: Collection[str]) -> bool:
    return found.severity != "info" and found.rule not in rules


def _with_truth(case: Case, seen: Sequence[Evidence], seed: int) -> Sequence[Evidence]:
    """Return evidence with expected gradients, also where backward raised.

    There another backward stands in for it, which returns nothing.
    """
    function = case.subject.function
    if function is None or any(each.values.expected for each in seen):
        return seen
    body = {"backward": staticmethod(lambda ctx, *_: (None,) * len(ctx.needs_input_grad))}
    make: Any = type(function)
    silent: type[Function] = make(function.__name__, (function,), body)
    with suppress(CannotDiagnoseError):
        return replace(case, subject=edited(case.subject, silent)).collect(seed, thorough=False)
    return seen


def _other_inputs(args: Sequence[Any], seed: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield arguments that ``diagnose`` does not try by itself, and what they are in words."""
    for other in _with_other_lengths(args):
        yield f"inputs of {_shapes(other)}", other
    whole = [isinstance(value, Tensor) and not is_float(value) for value in args]
    if any(whole):
        rng = generator(seed, Stream.SAMPLES)
        pairs = zip(args, whole, strict=True)
        yield "other integers", tuple(_redrawn(v, rng) if it else v for v, it in pairs)


def _redrawn(value: Tensor, rng: torch.Generator) -> Tensor:
    """Return other integers between zero and the largest, or other flags."""
    if value.dtype == torch.bool:
        return torch.rand(value.shape, generator=rng).lt(0.5).to(value.device)
    least, most = (int(it) for it in value.aminmax()) if value.numel() else (0, 0)
    other = torch.randint(min(least, 0), most + 1, value.shape, generator=rng)
    return other.to(value)


def _with_other_lengths(args: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the arguments with another length in the place of one that they have."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    lengths = dict.fromkeys(n for tensor in tensors for n in tensor.shape if n > 1)
    for length in islice(lengths, LENGTHS):
        yield tuple(_leaf(with_other_length(value, length), value) for value in args)


def _leaf(value: Any, like: Any) -> Any:
    return value.detach().requires_grad_(like.requires_grad) if is_float(value) else value


def _shapes(args: Sequence[Any]) -> str:
    shapes = dict.fromkeys(tuple(value.shape) for value in args if isinstance(value, Tensor))
    return f"shape{'s' * (len(shapes) > 1)} {listed([*map(str, shapes)], len(shapes))}"
