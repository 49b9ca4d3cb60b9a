"""Run a Function with edited methods, and find out which of its gradients are correct."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice
from types import FunctionType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_doctor._execution.calls import USERS, attempt
from autograd_doctor._execution.passes import handed_over, own_node
from autograd_doctor._execution.session import Run, Session, Subject
from autograd_doctor._execution.time_limit import in_time
from autograd_doctor._numerics.closeness import within
from autograd_doctor._numerics.tensors import as_tuple
from autograd_doctor._repair.contract import Saved
from autograd_doctor._repair.edits import (
    Edit,
    Scope,
    made_together,
    number_places,
    value_places,
)
from autograd_doctor._repair.formulas import (
    HOLE,
    Frame,
    Holes,
    Projected,
    Words,
    formulas,
    formulas_in,
    hole_edits,
    projected,
    together,
)
from autograd_doctor._repair.numbers import NumberHoles, formulas_of, needed
from autograd_doctor._repair.source import (
    METHODS,
    Fix,
    Method,
    function_as_method,
    helpers_of,
    method_of,
    with_helpers,
    with_methods,
)
from autograd_doctor.evidence import Evidence, Expected, Failure
from autograd_doctor.repair import Repair

Slots = Sequence[int]
"""A group of gradients, given by their indices among the wanted gradients."""

WordsIn = Callable[[Frame], Words]
"""A function that returns the terms that a formula can use where the given names are defined."""


class Runner(Protocol):
    """An object that runs edited methods of a Function, in this process or in another process."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """The author's methods, keyed by name."""

    @property
    def wanted(self) -> Sequence[int]:
        """The positions of the inputs whose expected gradients are known."""

    @property
    def sees_values(self) -> bool:
        """Whether the runner can see the values of individual expressions.

        The search for formulas needs these values.
        """

    def now(self) -> float:
        """Return the time in seconds since an arbitrary starting point."""

    def gradients(
        self, fixes: Iterable[Fix], wrong: Sequence[int] = ()
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """For each fix, yield which of the wanted gradients are correct.

        If the code raises, no gradient counts as correct.

        An empty fix leaves the Function unchanged. ``wrong`` lists the gradients that are wrong
        without a fix, as indices among the wanted gradients. If a fix corrects none of these
        gradients, the runner stops early, and no gradient counts as correct.
        """

    def gradients_if_saved(
        self, fixes: Iterable[Fix], saved: Saved, wrong: Sequence[int]
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """Yield the same as :meth:`gradients`, for edits that use one more saved value."""

    def outputs(self, fixes: Iterable[Fix]) -> Iterator[tuple[Fix, bool]]:
        """For each fix, yield whether forward returns the same values as the reference."""

    def formulas(
        self, scope: Scope, groups: Sequence[Slots], concerns: Callable[[Edit], bool]
    ) -> Iterator[tuple[Slots, Edit]]:
        """Yield formulas for expressions in ``backward`` that correct a group of gradients.

        Args:
            scope: The scope of backward.
            groups: Groups of gradients, given by their indices among the wanted gradients.
            concerns: Returns whether an edit can change one of these gradients.
        """

    def verify(self, fix: Fix) -> Repair | None:
        """Return a repair that names the inputs on which the fix works, or ``None``."""


# --------------------------------------------------------------------------------------------------
# Questions for backward, and the expected answers.
# --------------------------------------------------------------------------------------------------

Returned = tuple[Any, ...] | None
"""The values that ``backward`` returned for one cotangent, or ``None`` if ``backward`` raised."""


@dataclass(frozen=True)
class Question:
    """The inputs of one forward pass, and the expected gradients for some cotangents."""

    inputs: tuple[Any, ...]
    wanted: Sequence[int]
    sent: Sequence[tuple[Tensor | None, ...]]  # one cotangent for each differentiable output
    expected: Sequence[tuple[Expected, ...]]  # for each wanted input and each cotangent

    def right(self, answers: Iterable[Returned], wrong: Sequence[int] = ()) -> tuple[bool, ...]:
        """For each wanted input, return whether its gradient is correct.

        If ``backward`` raises, no gradient is correct.

        If every gradient in ``wrong`` is still wrong, do not compare the remaining gradients. They
        also count as wrong.
        """
        right = [True] * len(self.wanted)
        tensors = [isinstance(value, Tensor) for value in self.inputs]
        for grads, expected in zip(answers, self.expected, strict=False):
            if grads is None or len(grads) < len(tensors):
                return ()
            takes = [*tensors, *(False for _ in grads[len(tensors) :])]
            if any(g is not None and not it for g, it in zip(grads, takes, strict=True)):
                return ()
            for slot in wrong:
                right[slot] = right[slot] and is_right(grads[self.wanted[slot]], expected[slot])
            if not helps(right, wrong):
                return (False,) * len(right)
            for slot, (position, known) in enumerate(zip(self.wanted, expected, strict=True)):
                if slot not in wrong:
                    right[slot] = right[slot] and is_right(grads[position], known)
            if not any(right):
                break
        return tuple(right)

    def gradients_in(self, returned: Returned, slots: Slots) -> Sequence[Tensor] | None:
        """Return some of the wanted gradients, or ``None`` if one of them has the wrong shape."""
        if returned is None or len(returned) < len(self.inputs):
            return None
        chosen = [returned[self.wanted[slot]] for slot in slots]
        tensors = [grad for grad in chosen if isinstance(grad, Tensor)]
        shapes = [known.value.shape for known in self.expected_in(slots)]
        return tensors if [grad.shape for grad in tensors] == shapes else None

    def expected_in(self, slots: Slots) -> Sequence[Expected]:
        """Return some of the expected gradients for the first cotangent."""
        return [self.expected[0][slot] for slot in slots]


def helps(right: Sequence[bool], wrong: Sequence[int]) -> bool:
    """Return whether at least one of the gradients in ``wrong`` is now correct.

    If ``wrong`` is empty, any correct gradient counts.
    """
    return any(right[slot] for slot in wrong) if right and wrong else any(right)


def is_right(grad: Any, expected: Expected) -> bool:
    """Return whether a gradient is correct. ``None`` counts as zeros."""
    if grad is None:
        grad = torch.zeros_like(expected.value)
    if not isinstance(grad, Tensor) or grad.shape != expected.value.shape:
        return False
    if grad.is_complex() != expected.value.is_complex():
        return False
    close = within(grad.to(expected.value.dtype), expected)
    return bool(close.all()) or bool(close.logical_or_(torch.isnan(expected.value)).all())


def question_of(evidence: Evidence) -> Question | None:
    """Return the expected gradients as a :class:`Question`, or ``None`` if none are known."""
    compared = [name for name in evidence.values.expected if name in evidence.values.vjps]
    if not compared:
        return None
    return Question(
        evidence.inputs,
        evidence.wanted,
        [tuple(evidence.values.vjps[name].grad_outputs) for name in compared],
        [tuple(evidence.values.expected[name]) for name in compared],
    )


def outputs_agree(returned: Sequence[Any], evidence: Evidence) -> bool:
    """Return whether a forward pass returned the same values as the reference."""
    expected = evidence.values.reference_outputs or ()
    outputs = [out for out in returned if isinstance(out, Tensor)]
    if len(outputs) != len(expected):
        return False
    return all(
        out.shape == right.shape
        and out.dtype == right.dtype
        and torch.allclose(out, right, rtol=1e-6, atol=1e-9, equal_nan=True)
        for out, right in zip(outputs, expected, strict=True)
    )


# --------------------------------------------------------------------------------------------------
# Run the edits in this process.
# --------------------------------------------------------------------------------------------------


class Graph:
    """The graph of one forward pass, on which ``backward`` can run repeatedly.

    If an edited ``backward`` writes to saved tensors, ``forward`` runs again to create a new graph.
    """

    def __init__(
        self, run: Run, sent: Sequence[Sequence[Tensor | None]], again: Callable[[], Run]
    ) -> None:
        self._again = again
        self._take(run)
        zeros = getattr(self.node, "materialize_grads", True)
        self._sent = [
            tuple(
                torch.zeros_like(out) if g is None and zeros else g
                for g, out in zip(handed_over(self._outputs, each), self._outputs, strict=True)
            )
            for each in sent
        ]

    def _take(self, run: Run) -> None:
        self.node = own_node(run)
        self._outputs = run.returned  # in PyTorch 2.11, a node lives only as long as its outputs
        self._versions = self._written()

    @property
    def output(self) -> Tensor:
        """The first output of ``forward``, without its graph."""
        output: Tensor = self._outputs[0].detach()
        return output

    def _written(self) -> list[int]:
        """Return how many times each tensor that the node saved has been modified."""
        held = (*getattr(self.node, "saved_tensors", ()), *vars(self.node).values())
        return [value._version for value in held if isinstance(value, Tensor)]

    def answers(self, backward: Callable[..., Any]) -> Iterator[Returned]:
        """Yield the values that an edited ``backward`` returns for each cotangent."""
        return (self._answer(backward, sent) for sent in self._sent)

    def _answer(self, backward: Callable[..., Any], sent: Sequence[Tensor | None]) -> Returned:
        try:
            with torch.no_grad():
                return as_tuple(backward(self.node, *map(_copy, sent)))
        except USERS:
            return None
        finally:
            if self._is_stale():
                self._take(self._again())

    def traced(self, backward: Callable[..., Any]) -> Returned:
        """Return the result of an edited ``backward`` for the first cotangent, with its graph."""
        try:
            with torch.enable_grad():
                return as_tuple(backward(self.node, *map(_copy, self._sent[0])))
        except USERS:
            return None
        finally:
            if self._is_stale():
                self._take(self._again())

    def _is_stale(self) -> bool:
        try:
            return self._written() != self._versions
        except USERS:  # PyTorch refuses to return a saved tensor that was modified
            return True


ONLY = ("backward",)
ENDLESS = 0.1  # CPU seconds for one edit; a changed condition can make a loop endless


def _unless_endless(right: Callable[[], tuple[bool, ...]]) -> tuple[bool, ...]:
    return in_time(ENDLESS, right, ())


def _copy(grad: Tensor | None) -> Tensor | None:
    return None if grad is None else grad.clone()


def graph_of(
    subject: Subject,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    sent: Sequence[Sequence[Tensor | None]],
    seed: int,
) -> Graph | None:
    """Run forward once, and return its graph, or ``None`` if there is no graph."""
    again = partial(_run, subject, inputs, wanted, seed)
    run = attempt(again)
    if isinstance(run, Failure) or not any(out.grad_fn is not None for out in run.tensors):
        return None
    return Graph(run, sent, again)


def _run(subject: Subject, inputs: Sequence[Any], wanted: Sequence[int], seed: int) -> Run:
    return Session(subject, inputs, wanted, seed).run(watched=False)


def edited(subject: Subject, function: type[Function]) -> Subject:
    """Return a copy of the subject that uses an edited Function."""
    return replace(subject, function=function, call=function.apply)


@dataclass(frozen=True)
class InProcess:
    """A :class:`Runner` that runs edits in this process.

    Attributes:
        subject: A Function.
        seen: Evidence from the example and from other inputs, with the expected gradients.
        seed: The seed of the diagnosis.
        verified: Returns a repair that names the inputs on which an edited Function is correct.
    """

    subject: Subject
    seen: Sequence[Evidence]
    seed: int
    verified: Callable[[type[Function]], Repair | None]
    sees_values: bool = True

    @cached_property
    def methods(self) -> Mapping[str, Method]:
        """The methods whose source is known."""
        found = {name: method_of(self._function, name) for name in METHODS}
        return _with_helpers(found)

    @property
    def _function(self) -> type[Function]:
        assert self.subject.function is not None
        return self.subject.function

    def now(self) -> float:
        """Return the CPU time of this thread in seconds."""
        return time.thread_time()

    @property
    def wanted(self) -> Sequence[int]:
        """The positions of the inputs whose expected gradients are known."""
        return self._asked[0][0].wanted if self._asked else ()

    @cached_property
    def _asked(self) -> Sequence[tuple[Question, Graph]]:
        asked = []
        for question in filter(None, map(question_of, self.seen)):
            graph = self.graph(question)
            if graph is not None:
                asked.append((question, graph))
        return asked

    def graph(self, question: Question) -> Graph | None:
        """Run the author's ``forward`` on the inputs of a question."""
        return self._graph(self.subject, question)

    def _graph(self, subject: Subject, question: Question) -> Graph | None:
        return graph_of(subject, question.inputs, question.wanted, question.sent, self.seed)

    def gradients(
        self, fixes: Iterable[Fix], wrong: Sequence[int] = ()
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """For each fix, yield which of the wanted gradients are correct."""
        for fix in fixes if self._asked else ():
            if not fix:
                yield fix, self._right_with(self._function.backward, wrong)
            elif all(method.name == "backward" or method.owners == ONLY for method, _ in fix):
                if made := compiled(fix, self.methods):
                    (backward,) = made.values()
                    yield fix, _unless_endless(partial(self._right_with, backward, wrong))
            elif function := with_fix(self._function, fix, self.methods):
                yield fix, _unless_endless(partial(self._right_with_new_passes, function, wrong))

    def gradients_if_saved(
        self, fixes: Iterable[Fix], saved: Saved, wrong: Sequence[int]
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """Yield the same as :meth:`gradients`, for edits that use one more saved value."""
        for fix in fixes if self._asked else ():
            if made := compiled(fix, self.methods):
                (backward,) = made.values()
                yield fix, _unless_endless(partial(self._right_with, backward, wrong, saved))

    def _right_with(
        self, backward: Any, wrong: Sequence[int], saved: Saved | None = None
    ) -> tuple[bool, ...]:
        question, graph = self._asked[0]
        # one cotangent is enough to reject most edits
        right = question.right(
            islice(graph.answers(_given(backward, saved, question, graph)), 1), wrong
        )
        for question, graph in self._asked if helps(right, wrong) else ():
            also = question.right(graph.answers(_given(backward, saved, question, graph)), wrong)
            right = tuple(a and b for a, b in zip(right, also, strict=False))
            if not helps(right, wrong):
                break
        return right

    def _right_with_new_passes(
        self, function: type[Function], wrong: Sequence[int]
    ) -> tuple[bool, ...]:
        right: tuple[bool, ...] = ()
        for question, _ in self._asked:
            graph = self._graph(edited(self.subject, function), question)
            if graph is None:
                return ()
            also = question.right(graph.answers(function.backward), wrong)
            right = tuple(a and b for a, b in zip(right or also, also, strict=False))
            if not helps(right, wrong):
                break
        return right

    def outputs(self, fixes: Iterable[Fix]) -> Iterator[tuple[Fix, bool]]:
        """For each fix, yield whether forward returns the same values as the reference."""
        known = [each for each in self.seen if each.values.reference_outputs is not None]
        for fix in fixes:
            function = with_fix(self._function, fix, self.methods) if known else None
            if function is not None:
                subject = edited(self.subject, function)
                yield fix, all(self._computes(subject, each) for each in known)

    def _computes(self, subject: Subject, evidence: Evidence) -> bool:
        run = attempt(partial(_run, subject, evidence.inputs, evidence.wanted, self.seed))
        return not isinstance(run, Failure) and outputs_agree(run.returned, evidence)

    def formulas(
        self, scope: Scope, groups: Sequence[Slots], concerns: Callable[[Edit], bool]
    ) -> Iterator[tuple[Slots, Edit]]:
        """Yield formulas that correct a group of gradients."""
        loops = scope.loops  # formulas replace only code outside loops
        scope = replace(scope, names=[name for name in scope.names if name not in loops])
        words = self._words(scope)
        tensors = self._tensor_formulas(scope, words, concerns)
        numbers = self._number_formulas(scope, words, concerns)
        for slots in groups:
            for edit in (*tensors(slots), *numbers(slots)):
                yield slots, edit

    def _tensor_formulas(
        self, scope: Scope, words: WordsIn, concerns: Callable[[Edit], bool]
    ) -> Callable[[Slots], Iterator[Edit]]:
        """Return a function that yields the formulas for tensors."""
        question, graph = self._asked[0]
        places = [it for it in value_places(scope) if concerns(Edit("", 0, it[0], it[1]))]
        holes = Holes(places)
        backward = self.with_holes(hole_edits(places), holes)
        returned = graph.traced(backward) if backward else None
        spots = holes.spots

        @cache
        def along(slot: int) -> Projected | None:
            grads = question.gradients_in(returned, [slot])
            (expected,) = question.expected_in([slot])
            return projected(spots, grads[0], expected, slot) if grads else None

        def found(slots: Slots) -> Iterator[Edit]:
            parts = [along(slot) for slot in slots]
            known = [part for part in parts if part is not None]
            if known and len(known) == len(parts):
                yield from formulas(spots, together(known), lambda spot: words(spot.frame))

        return found

    def _number_formulas(
        self, scope: Scope, words: WordsIn, concerns: Callable[[Edit], bool]
    ) -> Callable[[Slots], Iterator[Edit]]:
        """Return a function that yields the formulas for single numbers."""
        question, graph = self._asked[0]
        places = [it for it in number_places(scope) if concerns(Edit("", 0, it[0], it[1]))]
        holes = NumberHoles(places)
        backward = self.with_holes(hole_edits(places), holes)
        returned = next(graph.answers(backward)) if backward else None
        if backward is None or returned is None:
            return lambda slots: iter(())
        numbers = holes.found

        @cache
        def returned_with(key: int, value: float) -> Returned:
            with holes.replaced(key, value):
                return next(graph.answers(backward))

        def gradients(slots: Slots, key: int, value: float) -> Sequence[Tensor] | None:
            return question.gradients_in(returned_with(key, value), slots)

        def found(slots: Slots) -> Iterator[Edit]:
            now, expected = question.gradients_in(returned, slots), question.expected_in(slots)
            for key, number in numbers if now else ():
                run = partial(gradients, slots, key)
                for target in needed(number.value, now or (), run, expected):
                    yield from formulas_of(number, target, words(number.frame).numbers)

        return found

    def with_holes(self, edits: Sequence[Edit], holes: Any) -> Callable[..., Any] | None:
        """Return ``backward`` with some expressions wrapped in calls to ``holes``."""
        with made_together(edits):
            made = self.methods["backward"].compiled()
        return None if made is None else with_helpers(made, {HOLE: holes})

    def _words(self, scope: Scope) -> WordsIn:
        """Return a function that returns the terms that a formula can use in a frame."""
        method = self.methods["backward"]
        others = [it.tree for it in self.methods.values() if it is not method]
        written = formulas_in([*others, method.tree])
        own: Any = method.function
        at: dict[tuple[int, ...], Words] = {}
        values: dict[Any, Any] = {}

        def words(frame: Frame) -> Words:
            key = tuple(id(value) for value in frame.values())
            if key not in at:
                at[key] = Words(frame, scope, written, own.__globals__, values)
            return at[key]

        return words

    def verify(self, fix: Fix) -> Repair | None:
        """Return a repair that names the inputs on which the fix works, or ``None``."""
        function = with_fix(self._function, fix, self.methods)
        return self.verified(function) if function else None


@dataclass(frozen=True)
class ByOutcome:
    """A :class:`Runner` that judges a Function or a plain function only by its result.

    Attributes:
        code: A Function class or a function.
        is_right: Whether the edited code returns the correct result.
        passes: Tests the edited code on more inputs. Returns a repair, or ``None`` if a result is
            wrong.
    """

    code: Any
    is_right: Callable[[Any], bool]
    passes: Callable[[Any], Repair | None]
    wanted: Sequence[int] = ()
    sees_values: bool = False

    @cached_property
    def methods(self) -> Mapping[str, Method]:
        """The methods. A plain function counts as a class with a single method."""
        if isinstance(self.code, type):
            found = {name: method_of(self.code, name) for name in METHODS}
        else:
            found = {"forward": function_as_method(self.code, "forward", with_ctx=False)}
        return _with_helpers(found)

    def now(self) -> float:
        """Return the CPU time of this thread in seconds."""
        return time.thread_time()

    def gradients(
        self, fixes: Iterable[Fix], wrong: Sequence[int] = ()
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """Yield nothing, because no expected gradient is known."""
        return iter(())

    def gradients_if_saved(
        self, fixes: Iterable[Fix], saved: Saved, wrong: Sequence[int]
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """Yield nothing, because no expected gradient is known."""
        return iter(())

    def outputs(self, fixes: Iterable[Fix]) -> Iterator[tuple[Fix, bool]]:
        """For each fix, yield whether the code returns the correct result."""
        for fix in fixes:
            if made := self._made(fix):
                yield fix, self.is_right(made)

    def formulas(
        self, scope: Scope, groups: Sequence[Slots], concerns: Callable[[Edit], bool]
    ) -> Iterator[tuple[Slots, Edit]]:
        """Yield nothing, because no expected gradient is known."""
        return iter(())

    def verify(self, fix: Fix) -> Repair | None:
        """Return a repair that names the inputs on which the fix works, or ``None``."""
        made = self._made(fix)
        return self.passes(made) if made else None

    def _made(self, fix: Fix) -> Any:
        """Return the edited code, or ``None`` if Python does not accept it."""
        if isinstance(self.code, type):
            return with_fix(self.code, fix, self.methods)
        made = compiled(fix, self.methods)
        return next(iter(made.values())) if made else None


def _given(backward: Any, saved: Saved | None, question: Question, graph: Graph) -> Any:
    """Pass ``backward`` one more value from ``forward``, as a global name or on ``ctx``."""
    if saved is None:
        return backward
    value = graph.output if saved.position is None else question.inputs[saved.position]
    if saved.shape:
        setattr(graph.node, saved.name.partition(".")[2], getattr(value, "shape", None))
        return backward
    return with_helpers(backward, {saved.name: value})


def _with_helpers(found: Mapping[str, Method | None]) -> Mapping[str, Method]:
    """Return the known methods, and the functions in the same module that these methods call."""
    known = {name: method for name, method in found.items() if method is not None}
    return {**known, **{it.name: it for it in helpers_of(known)}}


def compiled(fix: Fix, methods: Mapping[str, Method]) -> Mapping[Method, FunctionType] | None:
    """Return the edited methods, or ``None`` if Python does not accept them.

    If the fix edits a helper function, return the methods that call this function instead.
    """
    with made_together([edit for _, edit in fix]):
        made = {method: method.compiled() for method, _ in fix}
    known = {method: new for method, new in made.items() if new is not None}
    if len(known) < len(made):
        return None
    for helper in [method for method in known if method.owners]:
        made_helper = known.pop(helper)
        for owner in (methods[name] for name in helper.owners):
            before: Any = known.get(owner, owner.function)
            known[owner] = with_helpers(before, {helper.name: made_helper})
    return known


def with_fix(
    function: type[Function], fix: Fix, methods: Mapping[str, Method]
) -> type[Function] | None:
    """Return a subclass with the edited methods, or ``None`` if Python does not accept them."""
    made = compiled(fix, methods)
    if made is None:
        return None
    with made_together([edit for _, edit in fix]):  # a fix may edit decorators
        return with_methods(function, made)
