"""Search for the repair of a Function that runs in another process, such as a sandbox.

This process reads the source and makes the edits. The other process runs the edited code and
returns gradients and outputs. This process compares them with the expected values. If the
other process returns false results, the worst consequences are a missed repair or a suggested
repair that does not work.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

from torch.autograd import Function

from autograd_doctor._collect import capture_state, report_own_faults
from autograd_doctor._execution.calls import attempt, prepare
from autograd_doctor._execution.isolation import preserve_global_state
from autograd_doctor._execution.session import Run, Session, Subject, subject_of
from autograd_doctor._execution.time_limit import in_time
from autograd_doctor._interception import paused
from autograd_doctor._probes.core import choose_precision
from autograd_doctor._repair.contract import Saved
from autograd_doctor._repair.edits import Edit, Scope, made_together
from autograd_doctor._repair.runner import (
    ENDLESS,
    Graph,
    Question,
    Returned,
    Slots,
    edited,
    helps,
    question_of,
)
from autograd_doctor._repair.source import METHODS, Fix, Method, methods_in, with_sources
from autograd_doctor.evidence import Evidence, Failure
from autograd_doctor.repair import Repair

AT_ONCE = 40  # edits per question

Sources = Mapping[str, str]
"""The source (the ``def`` statement) of each method, keyed by method name."""

Ask = Callable[[Sequence[Sources], Question], Sequence[Sequence[Returned] | None]]
"""A function that returns the results of ``backward`` for each edit and each cotangent.

If the question has no cotangents, it returns the results of ``forward``. ``None`` means that the
code raised an error.
"""


@dataclass(frozen=True)
class Elsewhere:
    """A :class:`~.runner.Runner` that runs edits in another process.

    Attributes:
        cells: The source of the module, as notebook cells. Their file names are ``<cell 1>``,
            ``<cell 2>`` and so on.
        name: The name of the class.
        seen: The evidence, with the expected gradients.
        ask: Sends a question to the other process.
        verified: Takes the edited methods and returns a repair that names the inputs on which the
            edited class is correct, or ``None``.
        computes: The inputs of one call to ``forward``, and a function that checks the returned
            values.
    """

    cells: Sequence[str]
    name: str
    seen: Sequence[Evidence]
    ask: Ask
    verified: Callable[[Sources], Repair | None]
    computes: tuple[Sequence[Any], Callable[[Returned], bool]] | None = None
    sees_values: bool = False

    @cached_property
    def methods(self) -> Mapping[str, Method]:
        """The methods in the last cell that defines the class."""
        for number, cell in reversed([*enumerate(self.cells, 1)]):
            if found := methods_in(cell, self.name, f"<cell {number}>"):
                return found
        return {}

    @cached_property
    def _questions(self) -> Sequence[Question]:
        return [*filter(None, map(question_of, self.seen))]

    @property
    def wanted(self) -> Sequence[int]:
        """The positions of the inputs whose expected gradients are known."""
        return self._questions[0].wanted if self._questions else ()

    def now(self) -> float:
        """Return the wall-clock time in seconds, because this process mainly waits."""
        return time.monotonic()

    def gradients(
        self, fixes: Iterable[Fix], wrong: Sequence[int] = ()
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """For each fix, yield which of the wanted gradients are correct."""
        for part in _batches(fixes if self._questions else ()):
            sources = [_sources(fix) for fix in part]
            first, *others = self._questions
            settles = replace(first, sent=first.sent[:1], expected=first.expected[:1])
            right = self._right(sources, settles, wrong)
            for question in (first, *others):
                left = [k for k, it in enumerate(right) if helps(it, wrong)]
                also = self._right([sources[k] for k in left], question, wrong) if left else []
                for k, more in zip(left, also, strict=True):
                    right[k] = tuple(a and b for a, b in zip(right[k], more, strict=False))
            yield from zip(part, right, strict=True)

    def _right(
        self, sources: Sequence[Sources], question: Question, wrong: Sequence[int]
    ) -> list[tuple[bool, ...]]:
        answers = self.ask(sources, question)
        return [() if it is None else question.right(it, wrong) for it in answers]

    def gradients_if_saved(
        self, fixes: Iterable[Fix], saved: Saved, wrong: Sequence[int]
    ) -> Iterator[tuple[Fix, tuple[bool, ...]]]:
        """Yield the same as :meth:`gradients`, for edits that use one more saved value."""
        for fix, right in self.gradients(((*fix, *saved.fix) for fix in fixes), wrong):
            yield fix[: -len(saved.fix)], right

    def outputs(self, fixes: Iterable[Fix]) -> Iterator[tuple[Fix, bool]]:
        """For each fix, yield whether ``forward`` returns the correct values."""
        if self.computes is None:
            return
        inputs, is_right = self.computes
        question = Question(tuple(inputs), (), (), ())
        for part in _batches(fixes):
            answers = self.ask([_sources(fix) for fix in part], question)
            for fix, answer in zip(part, answers, strict=True):
                yield fix, bool(answer and is_right(answer[0]))

    def formulas(
        self, scope: Scope, groups: Sequence[Slots], concerns: Callable[[Edit], bool]
    ) -> Iterator[tuple[Slots, Edit]]:
        """Yield nothing, because this process cannot see the values of individual expressions."""
        return iter(())

    def verify(self, fix: Fix) -> Repair | None:
        """Return a repair that names the inputs on which the fix works, or ``None``."""
        return self.verified(_sources(fix))


def _batches(fixes: Iterable[Fix]) -> Iterator[Sequence[Fix]]:
    rest = iter(fixes)
    size = 1  # the first fix is the unchanged Function
    while part := [*islice(rest, size)]:
        yield part
        size = AT_ONCE


def _sources(fix: Fix) -> Sources:
    with made_together([edit for _, edit in fix]):
        return {method.name: ast.unparse(method.tree) for method, _ in fix}


# --------------------------------------------------------------------------------------------------
# The other process.
# --------------------------------------------------------------------------------------------------


def answers_to(
    subject: Subject, edits: Sequence[Sources], question: Question, seed: int
) -> list[list[Returned] | None]:
    """Compute the return value of an :data:`Ask`. This function runs in the other process."""
    graph: Graph | None = None

    def answer(sources: Sources) -> list[Returned] | None:
        nonlocal graph
        function = _function(subject, sources)
        if function is None:
            return None
        if graph is None or any(name != "backward" for name in sources) or not question.sent:
            again = partial(_run, edited(subject, function), question, seed)
            run = attempt(again)
            if isinstance(run, Failure) or not question.sent:
                return None if isinstance(run, Failure) else [run.returned]
            has_graph = any(out.grad_fn is not None for out in run.tensors)
            graph = Graph(run, question.sent, again) if has_graph else None
        answers = None if graph is None else [*graph.answers(function.backward)]
        if any(name != "backward" for name in sources):
            graph = None  # the graph belongs to an edited forward
        return answers

    return [in_time(ENDLESS, partial(answer, sources), None) for sources in edits]


def _run(subject: Subject, question: Question, seed: int) -> Run:
    return Session(subject, question.inputs, question.wanted, seed).run()


def _function(subject: Subject, sources: Sources) -> type[Function] | None:
    function = subject.function
    assert function is not None
    known = {name: text for name, text in sources.items() if name in METHODS}
    return with_sources(function, known) if known else function


def run_edits(
    fn: type[Function], edits: Sequence[Mapping[str, str]], question: Question, *, seed: int = 0
) -> list[list[tuple[Any, ...] | None] | None]:
    """Run a Function with edited methods, and return the results without judging them.

    Args:
        fn: A Function.
        edits: For each attempt, a dictionary that maps method names to the edited source of their
            ``def``. An empty dictionary leaves the Function unchanged.
        question: The inputs, the inputs to differentiate, and the cotangents.
        seed: The seed for all random numbers.

    Returns:
        For each attempt, the values that ``backward`` returned for each cotangent. If the question
        has no cotangents, these are the values that ``forward`` returned. ``None`` means that the
        code raised an error.
    """
    with report_own_faults(), paused():
        prepare()
        subject = capture_state(subject_of(fn, len(question.inputs)), question.inputs)
        with preserve_global_state(seed), subject.around.borrow():
            subject = choose_precision(subject, question.inputs, seed)
            return answers_to(subject, edits, question, seed)
