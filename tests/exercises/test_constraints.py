"""Every constraint on an answer is graded. If an answer breaks it on purpose, its rule reports it.

The answers are the solutions, changed in one way that no exercise allows. Their gradients stay
right, so they break only the constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from answers import RIGHT
from answers.making import spoiled
from sampling import first_rows
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple, takes_ctx
from autograd_course.grader import CATALOGUE, grade
from autograd_course.grader.exercise import FunctionExercise

FUNCTIONS = {
    name: exercise for name, exercise in CATALOGUE.items() if isinstance(exercise, FunctionExercise)
}
Answer = type[Function]


def with_gradients_in(dtype: torch.dtype) -> Callable[[Answer], Answer]:
    def make(right: Answer) -> Answer:
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            returned = right.backward(ctx, *grad_outputs)
            cast = tuple(in_dtype(grad) for grad in as_tuple(returned))
            return cast if isinstance(returned, tuple) else cast[0]

        def in_dtype(grad: Any) -> Any:
            if not isinstance(grad, Tensor):
                return grad
            return grad.to(dtype.to_complex() if grad.is_complex() else dtype)

        return spoiled(right, backward=backward)

    return make


class Elsewhere:
    """A ctx that stores saved tensors with ``keep`` and returns them with ``give``."""

    def __init__(self, ctx: Any, keep: Any, give: Any) -> None:
        vars(self).update(_ctx=ctx, _keep=keep, _give=give)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    def save_for_backward(self, *tensors: Any) -> None:
        self._keep(self._ctx, tensors)

    @property
    def saved_tensors(self) -> Any:
        return self._give(self._ctx)


def keeping(keep: Callable[[Any, Any], None], give: Callable[[Any], Any]) -> Any:
    """Return a function that makes an answer keep its tensors without ``save_for_backward``."""

    def make(right: Answer) -> Answer:
        def around(method: str) -> Callable[..., Any]:
            own = getattr(right, method)
            return lambda ctx, *rest: own(Elsewhere(ctx, keep, give), *rest)

        saving = "forward" if takes_ctx(right) else "setup_context"
        return spoiled(right, **{each: around(each) for each in (saving, "backward")})

    return make


def on_an_object(ctx: Any, tensors: Any) -> None:
    ctx.cache = SimpleNamespace(tensors=tensors)


def in_a_closure(ctx: Any, tensors: Any) -> None:
    ctx.recall = lambda: tensors


def as_arrays(ctx: Any, tensors: Any) -> None:
    ctx.arrays = [t if t is None else t.detach().resolve_conj().numpy().copy() for t in tensors]


def from_arrays(ctx: Any) -> Any:
    return tuple(a if a is None else torch.from_numpy(a).reshape(a.shape) for a in ctx.arrays)


SPOILED = {
    "float32 gradients": ("gradient-dtype", with_gradients_in(torch.float32)),
    "float64 gradients": ("gradient-dtype", with_gradients_in(torch.float64)),
    "tensors on an object": ("tensor-on-ctx", keeping(on_an_object, lambda c: c.cache.tensors)),
    "tensors in a closure": ("tensor-on-ctx", keeping(in_a_closure, lambda ctx: ctx.recall())),
    "tensors as arrays": ("tensor-on-ctx", keeping(as_arrays, from_arrays)),
}
# Rules that may report first: arrays cut the graph, and an output on ctx creates a reference cycle.
ALSO = {
    "tensors as arrays": ("silent-double-backward",),
    "tensors on an object": ("ctx-cycle",),
    "tensors in a closure": ("ctx-cycle",),
}
# These lessons do not say where to keep tensors. In lesson 11, only one exercise does.
DOES_NOT_SAY_WHERE = ("10", "11", "12", "15")
# The solutions of these exercises save no tensor.
SAVES_NOTHING = (
    "repair-mean", "gradient-reversal", "sign-ste", "round-ste", "repair-rotation",
    "repair-dropout",
)  # fmt: skip
SAVES_NO_FLOATS = ("clipped-relu", "gather-rows", "packed-leaky-relu")
# The statement of this exercise asks for float32 whenever autocast is on, even if an input has
# bfloat16.
OWN_DTYPE = ("repair-autocast",)


def rows() -> Iterator[tuple[str, str]]:
    for what, (rule, _) in SPOILED.items():
        for name, exercise in FUNCTIONS.items():
            kept = exercise.lesson[:2] not in DOES_NOT_SAY_WHERE and name not in SAVES_NOTHING
            kept &= what != "tensors as arrays" or name not in SAVES_NO_FLOATS
            if kept if rule == "tensor-on-ctx" else name not in OWN_DTYPE:
                yield name, what


@pytest.mark.parametrize("row", first_rows(rows(), lambda row: row[1], most=1), ids=": ".join)
def test_what_is_stated_of_every_answer_is_graded(row: tuple[str, str]) -> None:
    exercise, what = row
    rule, spoil = SPOILED[what]

    result = grade(exercise, spoil(RIGHT[exercise]))

    assert result.status == "wrong", str(result)
    assert result.finding is not None, str(result)
    assert result.finding.rule in {rule, *ALSO.get(what, ())}, str(result)
