"""Every exercise that asks for a Function accepts its right answer in both forms.

PyTorch knows two forms: a combined ``forward(ctx, …)``, and a separate ``forward(…)`` with
``setup_context(ctx, inputs, output)``. The solution of each exercise has one of these forms. The
tests convert the solution to the other form and grade it.
"""

from __future__ import annotations

from typing import Any

import pytest
from answers import RIGHT
from answers.making import combined
from sampling import first_rows
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple, takes_ctx
from autograd_course.grader import CATALOGUE, grade, pipeline
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.reading import source_of

FUNCTIONS = {
    name: exercise for name, exercise in CATALOGUE.items() if isinstance(exercise, FunctionExercise)
}
# Besides inputs and outputs, the solutions with a combined forward save these values.
# ``setup_context`` does not see them and would have to compute them again, so only a combined
# forward expresses these answers well.
INTERMEDIATES = {
    "clipped-relu": "where the input lies between 0 and the ceiling",
    "repair-solver": "the state of every step",
    "packed-leaky-relu": "the packed mask",
    "chunked-row-losses": "the log-sum-exp of each row",
    "attention-backward": "the softmax",
    "attention-budget": "the log-sum-exp of each query",
    "attention-tiled": "the log-sum-exp of each query",
    "attention-grouped": "the log-sum-exp of each query",
}
# These statements ask for a separate ``setup_context``, so a combined forward is a wrong answer.
ASK_FOR_SETUP_CONTEXT = {
    name for name, exercise in FUNCTIONS.items() if "setup_context" in exercise.methods
}


class Noting:
    """A ctx that records what a combined forward saves and marks. All else goes to ``ctx``."""

    def __init__(self, ctx: Any = None) -> None:
        vars(self).update(_ctx=ctx, saved=(), without_gradient=())

    def __getattr__(self, name: str) -> Any:
        return (lambda *given: None) if self._ctx is None else getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ctx is None:
            vars(self)[name] = value
        else:
            setattr(self._ctx, name, value)

    def save_for_backward(self, *tensors: Any) -> None:
        vars(self)["saved"] = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        vars(self)["without_gradient"] = tensors


def separate(right: type[Function]) -> type[Function]:
    """Return an answer with ``setup_context``. It calls the combined forward to record what it
    saves.
    """

    class Separate(Function):
        @staticmethod
        def forward(*inputs: Any) -> Any:
            return right.forward(Noting(), *inputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            notes = Noting(ctx)
            again = as_tuple(right.forward(notes, *inputs))
            returned = dict(zip(map(id, again), as_tuple(output), strict=True))
            ctx.save_for_backward(*(returned.get(id(t), t) for t in notes.saved))
            ctx.mark_non_differentiable(*(returned[id(t)] for t in notes.without_gradient))

        backward = staticmethod(right.backward)

    return Separate


def in_the_other_form(exercise: str) -> type[Function]:
    right = RIGHT[exercise]
    return separate(right) if takes_ctx(right) else combined(right)


@pytest.mark.parametrize(
    "exercise",
    first_rows(
        (name for name in FUNCTIONS if name not in ASK_FOR_SETUP_CONTEXT),
        lambda name: takes_ctx(RIGHT[name]),
    ),
)
def test_a_right_answer_passes_in_the_other_form(
    exercise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No learner writes the code that converts an answer, so read the source of the answer itself.
    monkeypatch.setattr(pipeline, "source_of", lambda _: source_of(RIGHT[exercise]))

    result = grade(exercise, in_the_other_form(exercise))

    assert result.status == "passed", str(result)


@pytest.mark.parametrize("exercise", first_rows(sorted(ASK_FOR_SETUP_CONTEXT), most=1))
def test_an_exercise_about_setup_context_says_so(exercise: str) -> None:
    result = grade(exercise, in_the_other_form(exercise))

    assert result.finding is not None, str(result)
    assert result.finding.rule == "func-incompatible", str(result)


def saves_an_intermediate(exercise: str) -> bool:
    """Return whether a combined forward saves a tensor that is neither an input nor an output."""
    for inputs in FUNCTIONS[exercise].samples().values():
        notes = Noting()
        outputs = as_tuple(RIGHT[exercise].forward(notes, *inputs))
        seen = {id(tensor) for tensor in (*inputs, *outputs)}
        if any(isinstance(t, Tensor) and id(t) not in seen for t in notes.saved):
            return True
    return False


def test_the_table_names_the_answers_that_save_an_intermediate() -> None:
    combined_ones = [name for name in FUNCTIONS if takes_ctx(RIGHT[name])]

    assert {name for name in combined_ones if saves_an_intermediate(name)} == set(INTERMEDIATES)
