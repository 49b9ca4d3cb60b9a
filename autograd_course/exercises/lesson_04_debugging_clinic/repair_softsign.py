"""Repair: memory that grows

1. Who holds whom? The output holds its grad_fn, which is ctx, as long as somebody holds the output.
   And who holds the output?
2. An output on ctx closes a circle: each end keeps the other alive. detach() and deleting it in
   backward cure one case each. PyTorch has a place for outputs that closes no circle.
3. y = x / (1 + x.abs()); ctx.save_for_backward(y); return y. In backward (y,) = ctx.saved_tensors.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.errors import first_line
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + |x|)``."""
    return x / (1 + x.abs())


def needs_no_output(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask for a gradient that comes also where nobody holds the output anymore."""
    _, outputs = applied(function, inputs)
    total = torch.stack([out.sum() for out in outputs]).sum()  # a sum keeps a shape, no output
    del outputs
    try:
        total.backward()
    except Exception as error:
        return found(
            "backward-raises",
            "The gradient is right as long as somebody holds the output. After apply(x).sum() "
            f"nobody does, and backward raises {type(error).__name__}: {first_line(error)}",
            {},
            "A weak reference holds nothing, and backward needs a tensor that is held: by the "
            "engine, in the place that PyTorch has for outputs.",
        )
    return None


EXERCISE = FunctionExercise(
    answer="Softsign",
    points=1,
    difficulty="easy",
    minutes=10,
    section="A patient from PyTorch itself",
    constraints="the memory goes when the output does, without the garbage collector",
    reference=softsign,
    samplers=shaped(normal),
    asked=("tensor-on-ctx", "ctx-cycle"),
    checks=(*CONDUCT, needs_no_output),
    seconds=20.0,  # to see a cycle the garbage collector has to run, several times
    modeled_on="PyTorch #25340: an output as an attribute of ctx is never freed",
)
