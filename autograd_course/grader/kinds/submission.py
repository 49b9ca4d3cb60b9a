"""Is what was handed in a Function at all, and one that can be called as asked?"""

import inspect
from typing import Any

import torch
from torch.autograd import Function

from autograd_course.grader.calls import takes_ctx
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.verdict import Verdict, unfinished, wrong


def submission_problem(exercise: FunctionExercise, answer: Any) -> Verdict | None:
    """Return one sentence on an answer that is no Function class, or ``None`` where it is one."""
    call = f'grade("{exercise.id}", YourClass)'
    if answer is None or answer is ...:
        return unfinished(f"there is no answer yet: write the class, then {call}.")
    owner = getattr(answer, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Function):
        return wrong(f'hand in the class itself: grade("{exercise.id}", {owner.__name__}).')
    if isinstance(answer, type):
        return _class_problem(answer)
    if isinstance(answer, Function):
        name = type(answer).__name__
        return wrong(f"this is an instance of {name}; hand in the class {name} itself.")
    kind = "a plain function" if callable(answer) and not _is_object(answer) else _kind(answer)
    return wrong(f"this is {kind}; hand in a subclass of torch.autograd.Function: {call}.")


def signature_problem(
    exercise: FunctionExercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    """Return one sentence on a forward that does not take these arguments.

    An instance method is left to the doctor, who knows better why its arguments do not fit.
    """
    if inspect.isfunction(inspect.getattr_static(answer, "forward")):
        return None
    ctx = (None,) if takes_ctx(answer) else ()
    signature = inspect.signature(answer.forward)
    try:
        signature.bind(*ctx, *inputs)
    except TypeError:
        return wrong(
            f"forward does not take the arguments of this exercise: write {exercise.signature}."
        )
    return None


def _class_problem(answer: type) -> Verdict | None:
    name = answer.__name__
    if issubclass(answer, torch.nn.Module):
        return wrong(
            f"{name} is an nn.Module, on which PyTorch never calls a backward; "
            f"write class {name}(torch.autograd.Function)."
        )
    if not issubclass(answer, Function):
        return wrong(
            f"{name} is a class but not a Function; write class {name}(torch.autograd.Function)."
        )
    if answer is Function:
        return unfinished("this is torch.autograd.Function itself: write a subclass of it.")
    return None


def _is_object(answer: Any) -> bool:
    return isinstance(answer, torch.nn.Module) or not hasattr(answer, "__name__")


def _kind(answer: Any) -> str:
    name = type(answer).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
