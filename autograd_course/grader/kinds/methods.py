"""Methods beside forward and backward that an exercise asks for: is one missing, or unwritten?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import RULES, Finding
from autograd_doctor.extension import CapturedState
from torch.autograd import Function, forward_ad

from autograd_course.grader.calls import is_float, takes_ctx
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.raised import is_unfinished
from autograd_course.grader.verdict import Verdict, fault, unfinished


def method_problem(
    exercise: FunctionExercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    """Return the verdict on the first method that is missing or a stub.

    What else a method may do wrong is the doctor's to say.
    """
    for name in exercise.methods:
        if missing := _missing(answer, name):
            return fault(missing)
        try:
            with CapturedState((answer.__name__, answer)).borrow():  # what lies on the class
                _CALLS[name](answer, inputs)
        except Exception as error:
            if is_unfinished(error, answer):
                return unfinished(f"`forward` is right. You have not written `{name}` yet.")
    return None


def _missing(answer: type[Function], name: str) -> Finding | None:
    if name == "setup_context" and takes_ctx(answer):
        return _found(
            "func-incompatible",
            f"`forward` is right, but it still takes `ctx` as an argument in `{answer.__name__}`, "
            "so `torch.func` raises an error.",
        )
    if name == "vmap" and answer.vmap is Function.vmap and not answer.generate_vmap_rule:
        return _found(
            "wrong-vmap",
            "`forward` is right, but `torch.func.vmap` raises an error. The class defines no "
            "method `vmap` and does not set `generate_vmap_rule = True`.",
        )
    if name == "jvp" and answer.jvp is Function.jvp:
        return _found(
            "wrong-jvp",
            "`forward` is right, but the class has no `jvp` method, which forward mode needs.",
        )
    return None


def _found(rule: str, message: str) -> Finding:
    known = RULES[rule]
    return Finding(rule, known.severity, message, {}, known.hint, known.lesson)


def _vmapped(answer: type[Function], inputs: tuple[Any, ...]) -> None:
    dims = tuple(0 if is_float(value) else None for value in inputs)
    stacked = [torch.stack([v, v]) if is_float(v) else v for v in inputs]
    torch.func.vmap(answer.apply, dims)(*stacked)


def _pushed(answer: type[Function], inputs: tuple[Any, ...]) -> None:
    with forward_ad.dual_level():
        answer.apply(*(forward_ad.make_dual(v, v.clone()) if is_float(v) else v for v in inputs))


_CALLS: Mapping[str, Callable[[type[Function], tuple[Any, ...]], Any]] = {
    "setup_context": lambda answer, inputs: None,  # each call has run it
    "vmap": _vmapped,
    "jvp": _pushed,
}
