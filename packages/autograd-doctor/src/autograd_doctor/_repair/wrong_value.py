"""Find the expression in ``backward`` whose value is wrong, and the value that it should have.

``forward`` runs once with autograd, which gives the value and the gradient of each result in
``forward``. Then ``backward`` runs with one of these values or gradients in place of one of its own
expressions. If this corrects a wrong gradient, the expression is wrong, and the code after it is
right. This reveals mistakes that no small edit repairs, such as two mistakes in one line, or a
value that ``backward`` recomputes in a different way.

The same value must correct the gradient on the example and on other inputs.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._execution.calls import USERS
from autograd_doctor._execution.session import Subject
from autograd_doctor._numerics.closeness import size
from autograd_doctor._repair.edits import value_places
from autograd_doctor._repair.formulas import hole_edits
from autograd_doctor._repair.mistaken_step import CLOSE, call_elsewhere
from autograd_doctor._repair.recorded_forward import Record, RecordedForward, Result, shortened
from autograd_doctor._repair.runner import Graph, InProcess, Question
from autograd_doctor._repair.source import scope_in
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import RANDOM, Evidence, Expected
from autograd_doctor.finding import Clue
from autograd_doctor.formatting import listed

SAMPLES = 2  # sets of inputs on which a value must correct a gradient
SECONDS = 0.08  # CPU time for the first set; the other set only confirms the result

Slots = tuple[int, ...]
"""Some of the gradients, given by their indices among the wanted gradients."""

Numbers = tuple[int, ...]
"""The numbers of an expression in ``backward``. A variable has one for each place that uses it."""

Substitute = tuple[Numbers, int, bool]
"""The numbers of an expression in ``backward``, the number of a result of ``forward``, and a flag.

If the flag is true, the gradient of the result replaces the expression. Otherwise, its value does.
"""


class _Values:
    """A recorder for the values of expressions in ``backward``. It can also replace a value."""

    def __init__(self, nodes: Sequence[ast.expr]) -> None:
        self._nodes = nodes
        self.seen: dict[int, list[Tensor]] = {}  # in the order of the computation
        self.replaced: tuple[Numbers, Tensor] | None = None

    def __call__(self, number: int, value: Any, _: Any) -> Any:
        if self.replaced is None:
            if isinstance(value, Tensor):
                self.seen.setdefault(number, []).append(value.detach().clone())
            return value
        return self.replaced[1].clone() if number in self.replaced[0] else value

    def expressions(self) -> Iterator[tuple[Numbers, Tensor]]:
        """Yield the expressions that were computed once, and variables with a single value."""
        variables: dict[str, list[int]] = {}
        for number, values in self.seen.items():
            node = self._nodes[number]
            if len(values) == 1:  # not in a loop
                yield (number,), values[0]
            if isinstance(node, ast.Name):
                variables.setdefault(node.id, []).append(number)
        for numbers in variables.values():
            first, *rest = [value for number in numbers for value in self.seen[number]]
            if rest and all(_alike(value, first) for value in rest):
                yield tuple(numbers), first


def find_wrong_value(
    record: Record,
    subject: Subject,
    seen: Sequence[Evidence],
    seed: int,
    others: Iterable[Sequence[Any]] = (),
) -> Clue | None:
    """Return the expressions in ``backward`` that make gradients wrong, or ``None`` if unknown.

    Args:
        record: Records ``forward``, or a reference or surrogate in its place.
        subject: A Function.
        seen: Evidence from the example and from other inputs, with the expected gradients.
        seed: The seed of the diagnosis.
        others: Arguments of other calls. The value must correct the gradient in these calls as
            well, because the example may be a special case, such as points on an axis. A call that
            raises does not count.
    """
    runner = InProcess(subject, (), seed, lambda _: None)
    method = runner.methods.get("backward")
    if method is None:
        return None
    own = [it for it in runner.methods.values() if it.owners in ((), ("backward",))]
    places = [*value_places(scope_in(method, own))]
    nodes = [node for _, node in places]
    values = _Values(nodes)
    backward = runner.with_holes(hole_edits(places), values)
    if backward is None:
        return None
    known = [it for it in seen if RANDOM in it.values.expected and RANDOM in it.values.vjps]
    found: dict[Substitute, Slots] | None = None
    results: Sequence[Result] = ()
    for evidence in known[:SAMPLES]:
        question = _question(evidence)
        try:
            recorded = record(evidence)
            graph = runner.graph(question)
            if graph is None:
                return None
            values.seen = {}
            helping = _helping(question, graph, backward, values, recorded, found)
        except (*USERS, CannotDiagnoseError):
            return None
        found = helping if found is None else _in_both(found, helping)
        results = recorded.results
        if not found:
            return None
    order = {number: k for k, number in enumerate(values.seen)}
    for args in others if found else ():
        there = call_elsewhere(known[0], subject, args, seed) if found else None
        if found and there is not None:
            with suppress(*USERS, CannotDiagnoseError):
                found = _holding(found, there, record(there), runner, backward, values)
    if not found:
        return None
    names = [f"`{subject.parameters[position]}`" for position in known[0].wanted]
    sentences, lines = [], []
    for ((number, *_), which, is_gradient), slots in _first_wrong(found, order):
        node, result = nodes[number], results[which]
        lines.append(method.first + node.lineno - 1)
        verb, kind = ("computes", "gradient") if is_gradient else ("uses", "value")
        right = _right([names[slot] for slot in slots], len(names))
        wrong, step = shortened(ast.unparse(node)), shortened(result.text)
        where = ", in the surrogate," if known[0].values.surrogate else ""
        sentences += [
            f"`backward` {verb} `{wrong}` in line {lines[-1]}.",
            f"With the {kind} of `{step}` of line {result.code.line}{where} in its place, {right}.",
        ]
    return Clue("backward", method.file, lines[0], " ".join(sentences))


def _right(inputs: Sequence[str], count: int) -> str:
    """Describe which of ``count`` gradients are right."""
    if len(inputs) == count:
        return "every gradient is right"
    named = listed(inputs, len(inputs))
    several = len(inputs) > 1
    return f"the gradient{'s' * several} of {named} {'are' if several else 'is'} right"


def _question(evidence: Evidence) -> Question:
    sent = evidence.values.vjps[RANDOM].grad_outputs
    expected = evidence.values.expected[RANDOM]
    return Question(evidence.inputs, evidence.wanted, [tuple(sent)], [tuple(expected)])


def _helping(
    question: Question,
    graph: Graph,
    backward: Callable[..., Any],
    values: _Values,
    recorded: RecordedForward,
    only: Collection[Substitute] | None,
) -> dict[Substitute, Slots]:
    """Return the substitutes that correct wrong gradients without breaking right ones.

    ``only`` restricts the search to some substitutes.
    """
    right = question.right(graph.answers(backward))
    wrong = {slot for slot, it in enumerate(right) if not it}
    found: dict[Substitute, Slots] = {}
    begun = time.thread_time()
    for substitute, value in _substitutes(question, values, recorded, only):
        if only is None and time.thread_time() - begun > SECONDS:
            break
        values.replaced = substitute[0], value
        after = question.right(graph.answers(backward), [*wrong])
        values.replaced = None
        slots = tuple(slot for slot in wrong if after and after[slot])
        if slots and all(after[slot] for slot in range(len(right)) if slot not in wrong):
            found[substitute] = slots
    return found


def _holding(
    found: Mapping[Substitute, Slots],
    there: Evidence,
    recorded: RecordedForward,
    runner: InProcess,
    backward: Callable[..., Any],
    values: _Values,
) -> dict[Substitute, Slots]:
    """Return the substitutes that also give the right gradients in another call.

    Keep a substitute that cannot be tried in the other call.
    """
    true = recorded.gradients_with(())
    if not true or any(grad is None for grad in true):
        return dict(found)
    expected = [
        Expected(grad, torch.tensor(CLOSE * size(grad))) for grad in true if grad is not None
    ]
    sent = there.values.vjps[RANDOM].grad_outputs
    question = Question(there.inputs, there.wanted, [tuple(sent)], [tuple(expected)])
    graph = runner.graph(question)
    if graph is None:
        return dict(found)
    values.seen = {}
    question.right(graph.answers(backward))
    holding = dict(found)
    for key, value in _substitutes(question, values, recorded, found):
        values.replaced = key[0], value
        after = question.right(graph.answers(backward), found[key])
        values.replaced = None
        if not after or not all(after[slot] for slot in found[key]):
            del holding[key]
    return holding


def _substitutes(
    question: Question,
    values: _Values,
    recorded: RecordedForward,
    only: Collection[Substitute] | None,
) -> Iterator[tuple[Substitute, Tensor]]:
    """Yield the values and gradients of results in ``forward`` that can replace an expression.

    Skip the gradients of the inputs, because ``backward`` itself has to compute them.
    """
    inputs = [it.value for it in question.expected[0]]
    offered: list[tuple[int, bool, Tensor]] = []
    for k, result in enumerate(recorded.results):
        if not any(_alike(it, result.value) for _, _, it in offered):
            offered.append((k, False, result.value))
    offered += [
        (k, True, grad)
        for k, grad in _gradients(recorded)
        if not any(
            grad.numel() == it.numel() and _alike(grad.reshape(it.shape), it) for it in inputs
        )
    ]
    for numbers, value in [*values.expressions()]:
        for which, is_gradient, other in offered:
            substitute = numbers, which, is_gradient
            if (
                (only is None or substitute in only)
                and other.shape == value.shape
                and other.dtype == value.dtype
                and not _alike(other, value)
            ):
                yield substitute, other


def _gradients(recorded: RecordedForward) -> Iterator[tuple[int, Tensor]]:
    """Yield the gradients of the results in ``forward``, if autograd computes them correctly.

    If several results have the same gradient, yield it only for the last result, which belongs to
    the largest expression.
    """
    if not recorded.is_followed:
        return
    asked = [
        (k, it.tensor)
        for k, it in enumerate(recorded.results)
        if it.tensor.requires_grad and it.tensor._version == it.version
    ]
    grads = recorded.gradients_of([tensor for _, tensor in asked])
    told: list[Tensor] = []
    for (k, _), grad in reversed([*zip(asked, grads, strict=True)]):
        if grad is not None and not any(_alike(grad, it) for it in told):
            told.append(grad)
            yield k, grad.detach()


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point() and not one.is_complex():
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=1e-6, atol=1e-12, equal_nan=True)


def _in_both(
    one: dict[Substitute, Slots], other: dict[Substitute, Slots]
) -> dict[Substitute, Slots]:
    return {key: slots for key, slots in one.items() if other.get(key) == slots}


def _first_wrong(
    found: dict[Substitute, Slots], order: dict[int, int]
) -> Iterator[tuple[Substitute, Slots]]:
    """Yield the earliest wrong expression for each wrong gradient.

    An expression that explains several gradients comes first.
    """

    def rank(it: Substitute) -> tuple[int, bool, int]:
        (number, *_), which, is_gradient = it
        return order.get(number, len(order)), is_gradient, which

    left = {slot for slots in found.values() for slot in slots}
    while left:
        most = max(len(left.intersection(slots)) for slots in found.values())
        best = [key for key, slots in found.items() if len(left.intersection(slots)) == most]
        chosen = min(best, key=rank)
        yield chosen, found[chosen]
        left -= set(found[chosen])
