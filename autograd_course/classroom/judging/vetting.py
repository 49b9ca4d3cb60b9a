"""Evidence from a process that ran untrusted code: is it what was asked for, are its values right?

What the judge can compute is never believed: inputs, grad_outputs and truth are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.classroom.judging.fitting import fits, same
from autograd_course.classroom.protocol.conforming import conforms
from autograd_doctor import Finding
from autograd_doctor._execution.isolation import generator
from autograd_doctor._execution.passes import drawn
from autograd_doctor._inputs import in_double, wanted
from autograd_doctor._numerics.mismatch import Mismatch, mismatches, witness
from autograd_doctor._numerics.tensors import as_tuple, is_float
from autograd_doctor._probes.core import cotangents
from autograd_doctor._reference import Declared, establish
from autograd_doctor.evidence import ONES, OTHER, RANDOM, SUM, Evidence, JacobianColumns
from autograd_course.grader.exercise import FunctionExercise

_NEEDED = {RANDOM, OTHER, SUM, ONES}  # cotangents of usual size
_MOST = 3  # pieces of evidence: the example, and what is varied of it


class UnfitError(Exception):
    """What came is no answer to what was asked; the message completes "the answer …"."""


def vetted(came: Any, inputs: Sequence[Any], reference: Callable[..., Any]) -> tuple[Evidence, ...]:
    """Return evidence on these inputs whose every part is what the doctor makes.

    Raises :class:`UnfitError` for anything else.
    """
    if not conforms(came, tuple[Evidence, ...]) or not 1 <= len(came) <= _MOST:
        raise UnfitError("is no evidence")
    asked = [in_double(value) for value in inputs]
    if not _same(came[0].inputs, asked):
        raise UnfitError("is about other inputs than it was asked about")
    kinds = [out.is_complex() for out in as_tuple(reference(*asked)) if isinstance(out, Tensor)]
    for seen in came:
        if not fits(seen, asked, wanted(inputs)) or not _comparable(seen, kinds):
            raise UnfitError("does not fit the question")
    return tuple(came)


def _same(came: Sequence[Any], asked: Sequence[Any]) -> bool:
    return len(came) == len(asked) and all(map(same, came, asked))


def _comparable(seen: Evidence, kinds: Sequence[bool]) -> bool:
    """Whether outputs are complex where the reference's are."""
    pairs = zip(seen.forward.outputs, kinds, strict=False)
    return all(out.is_complex() == is_complex for out, is_complex in pairs)


def disproved(exercise: FunctionExercise, example: Evidence, seed: int) -> Finding | None:
    """Return what is wrong with the values that came for the judge's own cotangents.

    Nothing that the other side says of itself counts here: not where it finds a kink, not what it
    finds to be settled. :class:`UnfitError` where an answer is left out.
    """
    own = replace(_asked(exercise, example, seed), jacobian=_smooth(exercise, example, seed))
    own = establish(own, exercise.reference, exercise.surrogate, seed)
    for cotangent in filter(lambda each: each.is_compared, own.vjps):
        for wrong in mismatches(own, cotangent):
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
    vjps = {name: pull for name, pull in example.vjps.items() if not pull.failure}
    if example.vjps.keys() != asked.keys() or not vjps.keys() >= _NEEDED:
        raise UnfitError("leaves out gradients that were asked for")
    own = {name: replace(pull, grad_outputs=asked[name]) for name, pull in vjps.items()}
    return replace(example, vjps=own)


def _smooth(
    exercise: FunctionExercise, example: Evidence, seed: int
) -> tuple[JacobianColumns, ...]:
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
