"""Judge a Function: does it run, is forward right, what does the doctor say of backward?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autograd_doctor import Finding, diagnose
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.limits import prepare
from autograd_course.grader.kinds.methods import method_problem
from autograd_course.grader.kinds.order import Inputs, Order
from autograd_course.grader.execution import Raised, backward_run, forward_run, passed_back
from autograd_course.grader.printing import Printed
from autograd_course.grader.kinds.submission import signature_problem, submission_problem
from autograd_course.grader.verdict import Verdict


def judged(exercise: FunctionExercise, answer: Any, seed: int | None, printed: Printed) -> Verdict:
    """Return the verdict on an answer, which should be a subclass of ``Function``."""
    if problem := submission_problem(exercise, answer):
        return problem
    prepare()  # before the clock starts: an import that is stopped halfway stays broken
    samples = exercise.samples(seed)
    verdict = Order(exercise, Present(exercise, answer, printed), samples).verdict()
    plainest = next(iter(samples.values()))
    return replace(verdict, printed=printed.on(samples.get(verdict.sample, plainest)))


def declared(exercise: FunctionExercise) -> dict[str, Any]:
    """Return what ``diagnose`` is told of an answer to an exercise."""
    return {
        "reference": exercise.reference,
        "surrogate": exercise.surrogate,
        "intentional": exercise.intentional,
        "double_backward": exercise.double_backward,
    }


@dataclass(frozen=True)
class Present:
    """The answer itself, a Function class in this process, as a ``Witness``."""

    exercise: FunctionExercise
    answer: type[Function]
    printed: Printed = field(default_factory=Printed)

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a forward that does not take these arguments."""
        return signature_problem(self.exercise, self.answer, inputs)

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Return what one forward pass returns, or how it raised."""
        with self.printed.during(inputs):
            return forward_run(self.answer, inputs)

    def backward(self, inputs: Inputs) -> Raised | None:
        """Return how a backward pass raised."""
        with self.printed.during(inputs):
            return backward_run(self.answer, inputs)

    def diagnosed(self, inputs: Inputs) -> Sequence[Finding]:
        """Return the doctor's findings."""
        return diagnose(self.answer, inputs, **declared(self.exercise)).findings

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, none where that raises."""
        return passed_back(self.answer.apply, inputs)

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a further method that is missing or a stub."""
        return method_problem(self.exercise, self.answer, inputs)

    def checked(self, check: int, inputs: Inputs) -> Finding | None:
        """Return what one of the exercise's own checks finds."""
        return self.exercise.checks[check](self.answer, inputs)
