"""Evidence from a process that ran untrusted code: is it what was asked for, are its values right?

What the judge can compute is never believed: inputs, grad_outputs and truth are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.classroom.protocol.conforming import conforms
from autograd_course.doctor import Finding
from autograd_course.doctor.cases import in_double, wanted
from autograd_course.doctor.comparing.mismatch import Mismatch, mismatches, witness
from autograd_course.doctor.evidence import Columns, Evidence
from autograd_course.doctor.probe import cotangents
from autograd_course.doctor.running.calls import as_tuple, is_float, same_bytes
from autograd_course.doctor.running.passes import drawn
from autograd_course.doctor.truth.declared import Declared
from autograd_course.doctor.truth.expected import establish
from autograd_course.doctor.truth.projection import judged
from autograd_course.doctor.world.randomness import generator
from autograd_course.grader.exercise import FunctionExercise

_NEEDED = {"random", "other", "sum", "ones"}  # cotangents of usual size
_MOST = 3  # pieces of evidence: the example, and what is varied of it


class UnfitError(Exception):
    """What came is no answer to what was asked; the message completes "the answer …"."""


def vetted(came: Any, inputs: Sequence[Any]) -> tuple[Evidence, ...]:
    """Return evidence on these inputs; :class:`UnfitError` for anything else."""
    if not conforms(came, tuple[Evidence, ...]) or not 1 <= len(came) <= _MOST:
        raise UnfitError("is no evidence")
    if not _same(came[0].inputs, [in_double(value) for value in inputs]):
        raise UnfitError("is about other inputs than it was asked about")
    for seen in came:
        if not _fits(seen, came[0], tuple(inputs)):
            raise UnfitError("does not fit the question")
    return tuple(came)


def _same(came: Sequence[Any], asked: Sequence[Any]) -> bool:
    return len(came) == len(asked) and all(map(_equal, came, asked))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and same_bytes(one, other)
    return type(one) is type(other) and bool(one == other)


def _fits(seen: Evidence, example: Evidence, inputs: tuple[Any, ...]) -> bool:
    """Whether there are as many of everything as there must be, and of the right shapes."""
    shapes = [getattr(value, "shape", None) for value in inputs]
    pulls = [pull for pull in seen.pulls.values() if not pull.failure]
    return (
        seen.wanted == wanted(inputs)
        and len(seen.parameters) == len(inputs)
        and [getattr(value, "shape", None) for value in seen.inputs] == shapes
        and all(_of_shapes(pull.grads, [shapes[place] for place in seen.wanted]) for pull in pulls)
        and len(seen.forward.outputs) == len(seen.forward.requires_grad)
    )


def _of_shapes(grads: Sequence[Tensor | None], shapes: Sequence[Any]) -> bool:
    return len(grads) == len(shapes) and all(
        grad is None or grad.shape == shape for grad, shape in zip(grads, shapes, strict=True)
    )


def disproved(exercise: FunctionExercise, example: Evidence, seed: int) -> Finding | None:
    """Return what is wrong with the values that came for the judge's own cotangents.

    Nothing that the other side says of itself counts here: not where it finds a kink, not what it
    finds to be settled. :class:`UnfitError` where an answer is left out.
    """
    own = replace(_asked(exercise, example, seed), jacobian=_smooth(exercise, example, seed))
    own = establish(own, exercise.reference, exercise.surrogate, seed)
    for name in filter(judged, own.pulls):
        for wrong in mismatches(own, name):
            return _finding(wrong)
    return None


def _asked(exercise: FunctionExercise, example: Evidence, seed: int) -> Evidence:
    """Return the evidence with the judge's cotangents.

    Those that a formula must be right for are to be there. A huge one may raise, as where an
    iteration does not settle; what is said of that is the rules' matter.
    """
    outputs = [out for out in as_tuple(exercise.reference(*example.inputs)) if is_float(out)]
    rng = generator(seed)
    asked = dict(cotangents(drawn(outputs, rng), drawn(outputs, rng)))
    pulls = {name: pull for name, pull in example.pulls.items() if not pull.failure}
    if example.pulls.keys() != asked.keys() or not pulls.keys() >= _NEEDED:
        raise UnfitError("leaves out gradients that were asked for")
    own = {name: replace(pull, grad_outputs=asked[name]) for name, pull in pulls.items()}
    return replace(example, pulls=own)


def _smooth(exercise: FunctionExercise, example: Evidence, seed: int) -> tuple[Columns, ...]:
    """Return where the reference has kinks, if the other side spoke of any."""
    if exercise.surrogate or not example.jacobian:
        return ()
    return Declared(exercise.reference, example, seed).jacobian()


def _finding(wrong: Mismatch) -> Finding:
    said = f"the gradient of {wrong.name} is not the one that the formula of forward has."
    with torch.no_grad():
        where = {k: v for k, v in witness(wrong).items() if k != "line"}
    hint = "Work one element of the gradient out by hand and compare."
    return Finding("gradient-mismatch", "error", said, where, hint, "01_template")
